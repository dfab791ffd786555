//! Formulas over the columns of a table: `assets == liabilities + equity`. Reading them and working them out, both pure.
//!
//! A column is named by itself or, with spaces or signs in its name, in square brackets: `[Net income]`. `prev(x)` is the
//! value in the row before (a formula with it does not speak of the first row), `sum(x)`, `avg(x)`, `min(x)`, `max(x)` are
//! over all rows that are meant, `count()` is their number, `abs(x)` and `round(x)` are of one number.

use std::fmt;

const DEPTH_MAX: usize = 40;

/// A comparison of two expressions.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    text: String,
    left: Expr,
    sign: Sign,
    right: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

const SIGNS: [(&str, Sign); 6] = [
    ("==", Sign::Equal),
    ("!=", Sign::NotEqual),
    ("<=", Sign::AtMost),
    (">=", Sign::AtLeast),
    ("<", Sign::Less),
    (">", Sign::More),
];

#[derive(Debug, Clone, PartialEq)]
enum Expr {
    Number(f64),
    Column(String),
    Call(Function, Option<Box<Expr>>),
    Binary(Box<Expr>, char, Box<Expr>),
    Negative(Box<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Abs,
    Round,
    Prev,
}

const FUNCTIONS: [(&str, Function); 8] = [
    ("sum", Function::Sum),
    ("avg", Function::Avg),
    ("min", Function::Min),
    ("max", Function::Max),
    ("count", Function::Count),
    ("abs", Function::Abs),
    ("round", Function::Round),
    ("prev", Function::Prev),
];

/// The numbers that a formula asks for.
pub(crate) trait Numbers {
    /// How many rows are meant.
    fn rows(&self) -> usize;

    /// The number in a row, or why there is none.
    fn number(&self, row: usize, column: &str) -> Result<f64, String>;
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// What is wrong with it, in words for whoever planned it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { rest: text };
        let left = reader.sum(0)?;
        let sign = reader.sign()?;
        let right = reader.sum(0)?;
        reader.space();
        if !reader.rest.is_empty() {
            return Err(format!("has {:?} after its end", reader.rest));
        }
        Ok(Self { text: text.to_owned(), left, sign, right })
    }

    /// Whether it speaks of the row before.
    pub(crate) fn looks_back(&self) -> bool {
        fn has(expr: &Expr) -> bool {
            match expr {
                Expr::Number(_) | Expr::Column(_) => false,
                Expr::Call(function, inner) => *function == Function::Prev || inner.as_deref().is_some_and(has),
                Expr::Binary(left, _, right) => has(left) || has(right),
                Expr::Negative(inner) => has(inner),
            }
        }
        has(&self.left) || has(&self.right)
    }

    /// Whether it holds in a row; if not, what the two sides are.
    pub(crate) fn hold(&self, table: &dyn Numbers, row: usize, tolerance: f64) -> Result<Option<(f64, f64)>, String> {
        let (left, right) = (work_out(&self.left, table, row)?, work_out(&self.right, table, row)?);
        let same = (left - right).abs() <= tolerance;
        let holds = match self.sign {
            Sign::Equal => same,
            Sign::NotEqual => !same,
            Sign::Less => left < right,
            Sign::AtMost => left < right || same,
            Sign::More => left > right,
            Sign::AtLeast => left > right || same,
        };
        Ok((!holds).then_some((left, right)))
    }
}

fn work_out(expr: &Expr, table: &dyn Numbers, row: usize) -> Result<f64, String> {
    Ok(match expr {
        Expr::Number(number) => *number,
        Expr::Column(column) => table.number(row, column)?,
        Expr::Negative(inner) => -work_out(inner, table, row)?,
        Expr::Binary(left, sign, right) => {
            let (left, right) = (work_out(left, table, row)?, work_out(right, table, row)?);
            match sign {
                '+' => left + right,
                '-' => left - right,
                '*' => left * right,
                _ if right == 0.0 => return Err("it divides by zero".to_owned()),
                _ => left / right,
            }
        }
        Expr::Call(Function::Count, _) => table.rows() as f64,
        Expr::Call(function, inner) => {
            let Some(inner) = inner else { return Err("a function has nothing to work on".to_owned()) };
            match function {
                Function::Abs => work_out(inner, table, row)?.abs(),
                Function::Round => work_out(inner, table, row)?.round(),
                Function::Prev => match row.checked_sub(1) {
                    Some(before) => work_out(inner, table, before)?,
                    None => return Err("there is no row before the first".to_owned()),
                },
                Function::Sum | Function::Avg | Function::Min | Function::Max | Function::Count => {
                    let all =
                        (0..table.rows()).map(|row| work_out(inner, table, row)).collect::<Result<Vec<_>, _>>()?;
                    if all.is_empty() && *function != Function::Sum {
                        return Err("there are no rows".to_owned());
                    }
                    let sum: f64 = all.iter().sum();
                    match function {
                        Function::Avg => sum / all.len() as f64,
                        Function::Min => all.iter().copied().fold(f64::INFINITY, f64::min),
                        Function::Max => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                        Function::Sum | Function::Count | Function::Abs | Function::Round | Function::Prev => sum,
                    }
                }
            }
        }
    })
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, wanted: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sign(&mut self) -> Result<Sign, String> {
        match SIGNS.into_iter().find(|(word, _)| self.take(word)) {
            Some((_, sign)) => Ok(sign),
            None => Err(format!("needs a comparison (== != < <= > >=) at {:?}", self.rest)),
        }
    }

    fn sum(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > DEPTH_MAX {
            return Err("nests too deep".to_owned());
        }
        let mut left = self.product(depth)?;
        loop {
            let sign = if self.take("+") {
                '+'
            } else if self.take("-") {
                '-'
            } else {
                return Ok(left);
            };
            left = Expr::Binary(Box::new(left), sign, Box::new(self.product(depth)?));
        }
    }

    fn product(&mut self, depth: usize) -> Result<Expr, String> {
        let mut left = self.factor(depth)?;
        loop {
            let sign = if self.take("*") {
                '*'
            } else if self.take("/") {
                '/'
            } else {
                return Ok(left);
            };
            left = Expr::Binary(Box::new(left), sign, Box::new(self.factor(depth)?));
        }
    }

    fn factor(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > DEPTH_MAX {
            return Err("nests too deep".to_owned());
        }
        if self.take("-") {
            return Ok(Expr::Negative(Box::new(self.factor(depth + 1)?)));
        }
        if self.take("(") {
            let inner = self.sum(depth + 1)?;
            return if self.take(")") { Ok(inner) } else { Err("misses a )".to_owned()) };
        }
        if self.take("[") {
            let Some((name, rest)) = self.rest.split_once(']') else { return Err("misses a ]".to_owned()) };
            self.rest = rest;
            return Ok(Expr::Column(name.trim().to_owned()));
        }
        self.space();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(format!("needs a number or a column at {:?}", self.rest));
        }
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return word.parse().map(Expr::Number).map_err(|_| format!("{word:?} is not a number"));
        }
        let function = FUNCTIONS.into_iter().find(|(name, _)| *name == word).map(|(_, function)| function);
        match function {
            Some(function) if self.take("(") => {
                let inner = if self.take(")") {
                    None
                } else {
                    let inner = self.sum(depth + 1)?;
                    if !self.take(")") {
                        return Err(format!("misses the ) of {word}"));
                    }
                    Some(Box::new(inner))
                };
                if inner.is_some() == (function == Function::Count) {
                    return Err(format!("{word} takes {}", if inner.is_some() { "nothing" } else { "one expression" }));
                }
                Ok(Expr::Call(function, inner))
            }
            _ => Ok(Expr::Column(word.to_owned())),
        }
    }
}
