//! The documents: each relative link and anchor leads somewhere, and `docs/SUMMARY.md` lists each page once.

use std::path::Path;
use std::process::{Command, Output};

fn python(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new("python3")
        .args(arguments)
        .current_dir(root.join("docs"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap()
}

#[test]
fn every_link_of_the_documents_leads_somewhere_and_the_summary_lists_each_page() {
    let checked = python(&["book.py", "check"]);
    assert!(checked.status.success(), "\n{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_link_that_leads_nowhere_and_a_page_that_is_not_listed_are_found() {
    let cases = r#"
from pathlib import Path
import book

assert book.anchors('# A `b` c!\n## A b c\n```\n# no\n```\n') == {'a-b-c', 'a-b-c-1'}
assert book.links('[a](b.md#c) `[d](e)` [f](https://g) <img src="h.png">\n```\n[i](j)\n```\n') == ['b.md#c', 'h.png']
page = Path('docs/a.md')
text = '# One\n[x](#one) [x](#two) [x](../README.md) [x](none.md) [x](../../out.md) [x](api.md#keys) [x](api.md#no)'
texts = {page: text, Path('docs/api.md'): '## Keys'}
found = [line.split(': ')[1] for line in book.broken_links(texts)]
assert found == ['#two', 'none.md', '../../out.md', 'api.md#no'], found
texts = {page: '', Path('docs/b.md'): '', book.SUMMARY: '- [b](b.md)\n- [again](b.md)'}
assert len(book.wrong_entries(texts)) == 2
"#;
    let judged = python(&["-c", cases]);
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
}
