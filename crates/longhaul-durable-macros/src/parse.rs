//! What a struct says of itself, checked.

use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Path, Result, Token, Type, Visibility,
    parse::ParseStream, spanned::Spanned,
};

/// Most fields, as the runtime keeps one bit for each.
const FIELDS_MAX: usize = 64;

pub(crate) struct State {
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    pub(crate) update: Ident,
    /// Where `longhaul_durable` is.
    pub(crate) root: Path,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) name: Ident,
    /// In JSON.
    pub(crate) stored: String,
    pub(crate) of: Type,
    pub(crate) reducer: Reducer,
}

pub(crate) enum Reducer {
    Last,
    Append,
    /// The function, and the type that it takes.
    Custom(Path, Box<Type>),
}

pub(crate) fn state(input: DeriveInput) -> Result<State> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "a graph's state has no type parameters: name the types"));
    }
    let only = "GraphState can be derived for a struct with named fields; implement the trait by hand for others";
    let Data::Struct(data) = input.data else { return Err(Error::new(input.ident.span(), only)) };
    let Fields::Named(named) = data.fields else { return Err(Error::new(input.ident.span(), only)) };
    let mut update = Ident::new(&format!("{}Update", input.ident), input.ident.span());
    let mut root: Path = syn::parse_quote!(::longhaul_durable);
    for attribute in &input.attrs {
        if attribute.path().is_ident("graph_state") {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("update") {
                    update = meta.value()?.parse()?;
                } else if meta.path.is_ident("crate") {
                    root = meta.value()?.parse()?;
                } else {
                    return Err(meta.error("expected `update = Name` or `crate = path`"));
                }
                Ok(())
            })?;
        }
        misplaced(attribute, &["append", "reduce"], "stands at a field")?;
        serde_words(attribute, &["rename_all"], "rename its fields one by one, so that their names here agree")?;
    }
    let fields = named.named.into_iter().map(field).collect::<Result<Vec<_>>>()?;
    if fields.len() > FIELDS_MAX {
        return Err(Error::new(
            input.ident.span(),
            format!("a state has at most {FIELDS_MAX} fields: group some in a struct of their own"),
        ));
    }
    Ok(State { vis: input.vis, name: input.ident, update, root, fields })
}

fn field(field: syn::Field) -> Result<Field> {
    let Some(name) = field.ident else { return Err(Error::new(field.ty.span(), "a field needs a name")) };
    let mut stored = name.to_string().trim_start_matches("r#").to_owned();
    let mut reducer: Option<Reducer> = None;
    for attribute in &field.attrs {
        misplaced(attribute, &["graph_state"], "stands at the struct")?;
        serde_words(
            attribute,
            &["skip", "skip_serializing", "skip_deserializing", "flatten"],
            "every field of a state is stored under its own name",
        )?;
        if let Some(renamed) = renamed(attribute)? {
            stored = renamed;
        }
        let said = if attribute.path().is_ident("append") {
            attribute.meta.require_path_only().map_err(|error| {
                Error::new(error.span(), "`#[append]` takes nothing: a function belongs into `#[reduce(function)]`")
            })?;
            Reducer::Append
        } else if attribute.path().is_ident("reduce") {
            attribute.parse_args_with(|input: ParseStream<'_>| custom(input, &field.ty)).map_err(|error| {
                Error::new(
                    error.span(),
                    format!("expected `#[reduce(function)]` or `#[reduce(function, from = Type)]`: {error}"),
                )
            })?
        } else {
            continue;
        };
        if reducer.replace(said).is_some() {
            return Err(Error::new(attribute.span(), "a field has one reducer: remove the others"));
        }
    }
    Ok(Field { name, stored, of: field.ty, reducer: reducer.unwrap_or(Reducer::Last) })
}

fn custom(input: ParseStream<'_>, of: &Type) -> Result<Reducer> {
    let function: Path = input.parse()?;
    if input.is_empty() {
        return Ok(Reducer::Custom(function, Box::new(of.clone())));
    }
    input.parse::<Token![,]>()?;
    let word: Ident = input.parse()?;
    if word != "from" {
        return Err(Error::new(word.span(), "the only other word is `from`"));
    }
    input.parse::<Token![=]>()?;
    Ok(Reducer::Custom(function, Box::new(input.parse()?)))
}

/// `#[serde(rename = "name")]`.
fn renamed(attribute: &Attribute) -> Result<Option<String>> {
    let mut name = None;
    if attribute.path().is_ident("serde") {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("rename") && meta.input.peek(Token![=]) {
                name = Some(meta.value()?.parse::<LitStr>()?.value());
                return Ok(());
            }
            skip(&meta.input)
        })?;
    }
    Ok(name)
}

fn serde_words(attribute: &Attribute, words: &[&str], instead: &str) -> Result<()> {
    if !attribute.path().is_ident("serde") {
        return Ok(());
    }
    attribute.parse_nested_meta(|meta| {
        if let Some(word) = words.iter().find(|word| meta.path.is_ident(word)) {
            return Err(meta.error(format!("a graph's state cannot have `{word}`: {instead}")));
        }
        skip(&meta.input)
    })
}

/// Skips what belongs to a word of serde's, up to the next comma.
fn skip(input: &ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

fn misplaced(attribute: &Attribute, words: &[&str], place: &str) -> Result<()> {
    match words.iter().find(|word| attribute.path().is_ident(word)) {
        Some(word) => Err(Error::new(attribute.span(), format!("`{word}` {place}"))),
        None => Ok(()),
    }
}
