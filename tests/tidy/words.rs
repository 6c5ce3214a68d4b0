//! Plain English in comments and documents: named subjects, and doc comments that begin with a noun or a verb.

use crate::source::File;

/// Pronouns that hide the actor: the member, the operator, the caller, the supervisor.
const INDEFINITE: [&str; 8] =
    ["nobody", "somebody", "anybody", "someone", "everybody", "everyone", "whoever", "whatever"];

/// First words of a doc comment that ask instead of naming ("Returns ...", "The number of ...", "True if ...").
const QUESTIONS: [&str; 4] = ["What", "Who", "Whether", "How"];

/// Findings in one text, each as `path:line: words`.
#[derive(Default)]
pub struct Found {
    pub indefinite: Vec<String>,
    pub questions: Vec<String>,
    /// The number of doc comments.
    pub docs: usize,
}

impl Found {
    pub fn extend(&mut self, other: Self) {
        self.indefinite.extend(other.indefinite);
        self.questions.extend(other.questions);
        self.docs += other.docs;
    }
}

/// Checks the comments of a Rust file.
pub fn in_code(file: &File) -> Found {
    let mut found = in_document(&file.path, &file.comments);
    let mut in_doc = false;
    for (index, line) in file.comments.lines().map(str::trim).enumerate() {
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(text) = doc.filter(|_| !in_doc) {
            found.docs += 1;
            let first = text.split_whitespace().next().unwrap_or_default();
            if QUESTIONS.contains(&first) {
                found.questions.push(format!("{}:{}: {line}", file.path, index + 1));
            }
        }
        in_doc = doc.is_some();
    }
    found
}

/// Checks a document.
pub fn in_document(path: &str, text: &str) -> Found {
    let mut found = Found::default();
    let mut before = String::new();
    for (index, line) in text.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let word = word.to_lowercase();
            if INDEFINITE.contains(&word.as_str()) || (before == "no" && word == "one") {
                found.indefinite.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
            before = word;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_actors_are_found_in_comments_only() {
        let text =
            "// Nobody hears, no\n// one reads.\nlet nobody = \"somebody\"; // everybody's\n/// None is someone.\n";
        let found = in_code(&File::new("src/a.rs", text));
        assert_eq!(found.indefinite.len(), 4, "{:?}", found.indefinite);
        assert!(found.indefinite[0].starts_with("src/a.rs:1: // Nobody"), "{:?}", found.indefinite);
        assert_eq!(in_document("a.md", "Somebody, no one.\nNone, anyone.").indefinite.len(), 2);
    }

    #[test]
    fn questions_are_found_where_a_doc_comment_begins() {
        let text = "//! What a file is.\n//! How it works.\n\n/// The name.\nfn a() {}\n/// Whether it is.\nfn b() {}\n\
                    // Who comments.\n/// Whatever.\n/// Returns it.\n/// How many.\nlet c = \"\n/// What\n\";";
        let found = in_code(&File::new("src/a.rs", text));
        assert_eq!((found.questions.len(), found.docs), (2, 4), "{:?}", found.questions);
    }
}
