//! A minimal reader of Rust source: tokens, and the paths between them.

/// Returns the identifiers and punctuation of a source text, without comments and literals. `::` is
/// one token.
pub(crate) fn tokens(text: &str) -> Vec<&str> {
    let is_left_out = |piece: &str| {
        piece.starts_with(char::is_whitespace)
            || is_comment(piece)
            || piece.starts_with(['"', '\''])
            || piece.contains('"')
    };
    pieces(text).filter(|piece| !is_left_out(piece)).collect()
}

/// Returns the string literals of a source text, with their quotes.
pub(crate) fn literals(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter(|piece| piece.contains('"') && !is_comment(piece))
}

fn is_comment(piece: &str) -> bool {
    piece.starts_with("//") || piece.starts_with("/*")
}

/// Returns all words, literals, comments and other characters of a text, in order.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let c = rest.chars().next()?;
        let length = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest),
            '\'' => char_or_lifetime(rest),
            'r' | 'b' if raw_string(rest).is_some() => raw_string(rest).unwrap(),
            _ if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => c.len_utf8(),
        };
        let piece;
        (piece, rest) = rest.split_at(length);
        Some(piece)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &text[at..];
        match () {
            () if rest.starts_with("/*") => (depth, at) = (depth + 1, at + 2),
            () if rest.starts_with("*/") => (depth, at) = (depth - 1, at + 2),
            () => at += rest.chars().next().map_or(0, char::len_utf8),
        }
        if depth == 0 || at == text.len() {
            return at;
        }
    }
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let start = text.trim_start_matches('b').strip_prefix('r')?;
    let content = start.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(start.len() - content.len()));
    let content = content.strip_prefix('"')?;
    let skipped = text.len() - content.len();
    Some(
        content
            .find(&end)
            .map_or(text.len(), |at| skipped + at + end.len()),
    )
}

fn char_or_lifetime(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, c))) => {
            let after = escaped + c.len_utf8();
            after + text[after..].find('\'').unwrap_or(0) + 1
        }
        (Some(_), Some((quote, '\''))) => quote + 1,
        _ => 1,
    }
}

/// A path in a source file, and where it occurs.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) path: Vec<String>,
    /// The inline modules that contain it.
    pub(crate) inline: Vec<String>,
    /// The name that an import gives it; `None` outside `use`.
    pub(crate) imported: Option<String>,
    /// Whether it is a re-export: `pub use`.
    pub(crate) public: bool,
    /// Whether it is at the top level of the file, outside of any module, function or block.
    pub(crate) at_top: bool,
}

impl Reference {
    pub(crate) fn in_tests(&self) -> bool {
        self.inline.iter().any(|module| module.contains("test"))
    }
}

/// A parsed source file.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) references: Vec<Reference>,
    /// The modules in files of their own.
    pub(crate) children: Vec<String>,
    /// The words outside `use` and inline modules, and the first word of each path.
    pub(crate) words: Vec<String>,
    /// Whether the file only declares modules and imports or re-exports names.
    pub(crate) only_declares: bool,
}

impl Code {
    pub(crate) fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let mut code = Self {
            only_declares: true,
            ..Self::default()
        };
        let (mut inline, mut depth, mut at): (Vec<(String, usize)>, usize, usize) = (Vec::new(), 0, 0);
        let in_modules = |inline: &[(String, usize)]| inline.iter().map(|(name, _)| name.clone()).collect();
        while at < tokens.len() {
            let (token, next) = (tokens[at], tokens.get(at + 1).copied());
            match token {
                "#" if at_attribute(&tokens, at) => {
                    at = past_brackets(&tokens, at);
                    continue;
                }
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inline.pop_if(|(_, outside)| *outside == depth);
                }
                "mod" if tokens.get(at + 2) == Some(&";") => {
                    code.children.push(next.unwrap().to_owned());
                    at += 3;
                    continue;
                }
                "mod" if tokens.get(at + 2) == Some(&"{") => {
                    inline.push((next.unwrap().to_owned(), depth));
                    (at, depth) = (at + 3, depth + 1);
                    continue;
                }
                "use" if next != Some("<") => {
                    let public = at > 0 && matches!(tokens[at - 1], "pub" | ")");
                    let mut names = Vec::new();
                    at = use_tree(&tokens, at + 1, &mut Vec::new(), &mut names);
                    for (path, name) in names {
                        code.references.push(Reference {
                            path,
                            inline: in_modules(&inline),
                            imported: Some(name),
                            public,
                            at_top: depth == 0,
                        });
                    }
                    continue;
                }
                _ if next == Some("::") && (at == 0 || !["::", "in"].contains(&tokens[at - 1])) => {
                    let mut path = vec![token.to_owned()];
                    let mut end = at + 1;
                    while tokens.get(end) == Some(&"::")
                        && tokens.get(end + 1).is_some_and(|t| t.starts_with(is_word))
                    {
                        path.push(tokens[end + 1].to_owned());
                        end += 2;
                    }
                    code.references.push(Reference {
                        path,
                        inline: in_modules(&inline),
                        imported: None,
                        public: false,
                        at_top: depth == 0,
                    });
                }
                _ => {}
            }
            if inline.is_empty() {
                code.only_declares &=
                    matches!(token, "pub" | "(" | ")" | "crate" | "super" | "in" | ";" | "::");
                if token.starts_with(is_word) && (at == 0 || !["::", "."].contains(&tokens[at - 1])) {
                    code.words.push(token.to_owned());
                }
            }
            at += 1;
        }
        code
    }
}

fn at_attribute(tokens: &[&str], at: usize) -> bool {
    match tokens.get(at + 1) {
        Some(&"!") => tokens.get(at + 2) == Some(&"["),
        next => next == Some(&"["),
    }
}

fn past_brackets(tokens: &[&str], mut at: usize) -> usize {
    let mut depth = 0;
    while at < tokens.len() {
        match tokens[at] {
            "[" => depth += 1,
            "]" if depth == 1 => return at + 1,
            "]" => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Reads one tree of a `use` from `at`, and returns the position after it.
fn use_tree(
    tokens: &[&str],
    mut at: usize,
    prefix: &mut Vec<String>,
    names: &mut Vec<(Vec<String>, String)>,
) -> usize {
    let length = prefix.len();
    loop {
        match tokens.get(at).copied() {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = use_tree(tokens, at, prefix, names);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                at += 1;
                break;
            }
            Some("::") => at += 1,
            Some(word) if word == "*" || word.starts_with(is_word) => {
                at += 1;
                if word != "self" || prefix.is_empty() {
                    prefix.push(word.to_owned());
                }
                if tokens.get(at) == Some(&"as") {
                    names.push((prefix.clone(), tokens[at + 1].to_owned()));
                    at += 2;
                    break;
                }
                if tokens.get(at) != Some(&"::") {
                    names.push((prefix.clone(), prefix.last().unwrap().clone()));
                    break;
                }
            }
            _ => break,
        }
    }
    prefix.truncate(length);
    at
}

#[test]
fn tokens_leave_out_comments_and_literals() {
    let text = "a::b /* c /* d */ e */ \"f \\\" g\" r#\"h \" i\"# 'j' '\\'' &'k l // m\nn";
    assert_eq!(tokens(text), ["a", "::", "b", "&", "k", "l", "n"]);
    assert_eq!(
        literals(text).collect::<Vec<_>>(),
        [r#""f \" g""#, "r#\"h \" i\"#"]
    );
}

#[test]
fn paths_are_found_in_every_form() {
    let code = Code::read(
        "mod own;\npub(crate) use own::Own;\nuse crate::{a, b::{self, C as D}, e::*};\n\
         #[cfg(x)]\nfn f() { crate::h::i::<T>(); let x: super::J = y; }\npub(in crate::no) struct S;\n\
         mod tests { use super::*; }",
    );
    let found: Vec<_> = code
        .references
        .iter()
        .map(|reference| {
            (
                reference.path.join("::"),
                reference.imported.as_deref().unwrap_or(""),
            )
        })
        .collect();
    let expected = [
        ("own::Own", "Own"),
        ("crate::a", "a"),
        ("crate::b", "b"),
        ("crate::b::C", "D"),
        ("crate::e::*", "*"),
        ("crate::h::i", ""),
        ("super::J", ""),
        ("super::*", "*"),
    ];
    assert_eq!(found, expected.map(|(path, name)| (path.to_owned(), name)));
    assert_eq!(code.children, ["own"]);
    assert!(code.references[0].public && code.references[7].in_tests());
    assert!(!code.only_declares);
    assert!(Code::read("//! A module.\n#![x]\nmod a;\npub use a::B;").only_declares);
}
