//! Patterns with texts, which no `String` matches, as patterns with conditions.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Ident, Lit, Pat};

/// A pattern without texts.
pub(super) struct Case {
    pub(super) pattern: Pat,
    /// The names in place of the texts, each with its text or texts.
    pub(super) texts: Vec<(Ident, Pat)>,
}

/// The cases of a pattern: one, or several where a text is an alternative to something else, as in
/// `Some("a") | None`, since all alternatives of a pattern have the same names.
pub(super) fn cases(whole: &Pat) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut choice = Choice { index: 0, alternatives: 0 };
    loop {
        let mut pattern = whole.clone();
        choice.alternatives = 0;
        choice.visit_pat_mut(&mut pattern);
        if choice.alternatives == 0 {
            let mut texts = Texts(Vec::new());
            texts.visit_pat_mut(&mut pattern);
            return vec![Case { pattern, texts: texts.0 }];
        }
        cases.extend(self::cases(&pattern));
        choice.index += 1;
        if choice.index == choice.alternatives {
            return cases;
        }
    }
}

/// Replaces the first `|` between a text and something else by one alternative.
struct Choice {
    index: usize,
    /// How many there are; 0 until the `|` is found.
    alternatives: usize,
}

impl VisitMut for Choice {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        if self.alternatives > 0 || is_text(pattern) {
            return;
        }
        let has_text = has_text(pattern);
        match pattern {
            Pat::Or(or) if has_text => {
                self.alternatives = or.cases.len();
                *pattern = or.cases[self.index].clone();
            }
            _ => visit_mut::visit_pat_mut(self, pattern),
        }
    }
}

/// Replaces each text by a name.
struct Texts(Vec<(Ident, Pat)>);

impl VisitMut for Texts {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        if !is_text(pattern) {
            return visit_mut::visit_pat_mut(self, pattern);
        }
        // The compiler's errors about the type of the field stand where the text does. For this the
        // name has the text's span with its hygiene, so that it must be one that no guard has.
        let name = Ident::new(&format!("__jobq_text_{}", self.0.len()), pattern.span());
        let text = std::mem::replace(pattern, syn::parse_quote!(#name));
        self.0.push((name, text));
    }
}

/// A text, or `"a" | "b"`.
fn is_text(pattern: &Pat) -> bool {
    match pattern {
        Pat::Lit(literal) => matches!(literal.lit, Lit::Str(_)),
        Pat::Paren(inner) => is_text(&inner.pat),
        Pat::Or(or) => or.cases.iter().all(is_text),
        _ => false,
    }
}

fn has_text(pattern: &Pat) -> bool {
    struct Search(bool);
    impl<'ast> Visit<'ast> for Search {
        fn visit_pat(&mut self, pattern: &'ast Pat) {
            self.0 |= is_text(pattern);
            visit::visit_pat(self, pattern);
        }
    }
    let mut search = Search(false);
    search.visit_pat(pattern);
    search.0
}
