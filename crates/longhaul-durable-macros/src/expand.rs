//! The generated code: the update, its setters, and the trait.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Ident, LitStr, Type, spanned::Spanned};

use crate::parse::{Field, Reducer, State};

pub(crate) fn expand(state: &State) -> TokenStream {
    let State { vis, name, update, root, fields } = state;
    let slots = fields.iter().map(|field| slots(field, state));
    let setters = fields.iter().map(|field| setters(field, state));
    let known = fields.iter().map(|field| known(field, state));
    let apply = fields.iter().map(|field| apply(field, state));
    let touched = (0_u32..).zip(fields).map(|(bit, field)| touched(bit, field));
    let asserted = fields.iter().map(|field| asserted(field, state));
    let serde_root = LitStr::new(&quote!(#root::derived::serde).to_string().replace(' ', ""), Span::call_site());
    let about = format!(" What a node changes of [`{name}`]: nothing at first, and then what its methods say.");
    quote! {
        #[doc = #about]
        #[derive(
            ::core::clone::Clone,
            ::core::default::Default,
            #root::derived::serde::Serialize,
            #root::derived::serde::Deserialize,
        )]
        #[serde(crate = #serde_root)]
        #vis struct #update {
            #(#slots)*
        }

        impl #update {
            /// Changes nothing.
            #[must_use]
            #vis fn new() -> Self {
                ::core::default::Default::default()
            }
            #(#setters)*
        }

        impl ::core::fmt::Debug for #update {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                #root::derived::as_json(::core::stringify!(#update), self, f)
            }
        }

        impl #root::GraphState for #name {
            type Update = #update;
            const FIELDS: &'static [#root::Field] = &[#(#known),*];
            fn apply(&mut self, update: #update) {
                #(#apply)*
            }
            fn touched(update: &#update) -> u64 {
                0 #(#touched)*
            }
        }

        const _: fn() = || {
            #(#asserted)*
        };
    }
}

fn overwrite(field: &Field) -> Ident {
    // A raw identifier may not be part of another.
    format_ident!("overwrite_{}", field.name.to_string().trim_start_matches("r#"), span = field.name.span())
}

/// The fields of the update that belong to one of the state.
fn slots(field: &Field, state: &State) -> TokenStream {
    let Field { name, stored, of, reducer } = field;
    let present = LitStr::new(
        &{
            let root = &state.root;
            quote!(#root::derived::present).to_string().replace(' ', "")
        },
        Span::call_site(),
    );
    let slot = |name: &Ident, stored: &str, of: &TokenStream| {
        quote! {
            #[serde(
                rename = #stored,
                default,
                deserialize_with = #present,
                skip_serializing_if = "::core::option::Option::is_none"
            )]
            #name: ::core::option::Option<#of>,
        }
    };
    let whole = slot(&overwrite(field), &format!("={stored}"), &quote!(#of));
    match reducer {
        Reducer::Last => slot(name, stored, &quote!(#of)),
        Reducer::Append => [whole, slot(name, stored, &quote!(#of))].into_iter().collect(),
        Reducer::Custom(_, from) => [whole, slot(name, stored, &quote!(::std::vec::Vec<#from>))].into_iter().collect(),
    }
}

fn setters(field: &Field, State { vis, root, .. }: &State) -> TokenStream {
    let Field { name, of, reducer, .. } = field;
    let overwrite = overwrite(field);
    let whole = {
        let about = format!(" Sets the whole of `{name}`, whatever it was, bypassing its reducer.");
        quote! {
            #[doc = #about]
            #[must_use]
            #vis fn #overwrite(mut self, value: #of) -> Self {
                self.#overwrite = ::core::option::Option::Some(value);
                self.#name = ::core::option::Option::None;
                self
            }
        }
    };
    match reducer {
        Reducer::Last => {
            let about = format!(" Sets `{name}`.");
            let (takes, value) = if is_string(of) {
                (quote!(impl ::core::convert::Into<#of>), quote!(::core::convert::Into::into(value)))
            } else {
                (quote!(#of), quote!(value))
            };
            quote! {
                #[doc = #about]
                #[must_use]
                #vis fn #name(mut self, value: #takes) -> Self {
                    self.#name = ::core::option::Option::Some(#value);
                    self
                }
            }
        }
        Reducer::Append => {
            let about = format!(" Adds these to `{name}`.");
            // Spanned, so that a type which cannot grow is pointed at.
            let add = quote_spanned! { of.span() => #root::derived::Grows::grow };
            let item = quote_spanned! { of.span() => <#of as #root::derived::Grows>::Item };
            quote! {
                #whole
                #[doc = #about]
                #[must_use]
                #vis fn #name(mut self, items: impl ::core::iter::IntoIterator<Item = #item>) -> Self {
                    #add(self.#name.get_or_insert_with(<#of as #root::derived::Grows>::empty), items);
                    self
                }
            }
        }
        Reducer::Custom(function, from) => {
            let about = format!(" Gives `{name}` a value, which its reducer `{}` takes in.", quote!(#function));
            quote! {
                #whole
                #[doc = #about]
                #[must_use]
                #vis fn #name(mut self, value: #from) -> Self {
                    self.#name.get_or_insert_with(::std::vec::Vec::new).push(value);
                    self
                }
            }
        }
    }
}

/// The entry in `FIELDS`.
fn known(field: &Field, State { root, .. }: &State) -> TokenStream {
    let stored = &field.stored;
    let reducer = match &field.reducer {
        Reducer::Last => quote!(Last),
        Reducer::Append => quote!(Append),
        Reducer::Custom(function, _) => {
            let function = quote!(#function).to_string().replace(' ', "");
            quote!(Custom(#function))
        }
    };
    quote!(#root::Field { name: #stored, reducer: #root::Reducer::#reducer })
}

fn apply(field: &Field, State { root, .. }: &State) -> TokenStream {
    let Field { name, reducer, .. } = field;
    let overwrite = overwrite(field);
    let set = |slot: &Ident| {
        quote! {
            if let ::core::option::Option::Some(value) = update.#slot {
                self.#name = value;
            }
        }
    };
    let whole = set(&overwrite);
    match reducer {
        Reducer::Last => set(name),
        Reducer::Append => quote! {
            #whole
            if let ::core::option::Option::Some(items) = update.#name {
                #root::derived::Grows::grow(&mut self.#name, items);
            }
        },
        Reducer::Custom(function, _) => quote! {
            #whole
            for value in update.#name.into_iter().flatten() {
                #function(&mut self.#name, value);
            }
        },
    }
}

fn touched(bit: u32, field: &Field) -> TokenStream {
    let overwrite = overwrite(field);
    let slot = match &field.reducer {
        Reducer::Last => &field.name,
        Reducer::Append | Reducer::Custom(..) => &overwrite,
    };
    quote!(| (u64::from(update.#slot.is_some()) << #bit))
}

/// Code that does not compile, with words of ours, when the field cannot be what it is said to be.
fn asserted(field: &Field, State { root, .. }: &State) -> TokenStream {
    let of = &field.of;
    let plain = quote_spanned! { of.span() => #root::derived::plain_data::<#of>(); };
    let grows = match field.reducer {
        Reducer::Append => quote_spanned! { of.span() => #root::derived::grows::<#of>(); },
        Reducer::Last | Reducer::Custom(..) => TokenStream::new(),
    };
    quote! {
        #plain
        #grows
    }
}

fn is_string(of: &Type) -> bool {
    let Type::Path(path) = of else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == "String")
}
