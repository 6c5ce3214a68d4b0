//! The licences of crates and fonts: `docs/licences.md` lists the content of a release, and each licence is accepted.

use std::path::Path;
use std::process::{Command, Output};

fn python(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new("python3")
        .args(arguments)
        .current_dir(root.join("deploy"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap()
}

#[test]
fn the_licences_of_all_crates_and_fonts_are_accepted_and_written_down() {
    let printed = python(&["licences.py"]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let written = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/licences.md")).unwrap();
    assert!(printed.stdout == written, "docs/licences.md is not current; run deploy/licences.py > docs/licences.md");
    let text = String::from_utf8(written).unwrap();
    assert!(
        text.contains("| KaTeX_Main | `ratex-katex-fonts` | SIL Open Font License 1.1 |") && !text.contains("| none |")
    );
}

#[test]
fn a_licence_that_is_not_accepted_is_found() {
    let cases = r"
from licences import accepted
allowed = {'MIT', 'Unicode-3.0', 'Apache-2.0 WITH LLVM-exception'}
for expression, met in [
    ('MIT', True), ('GPL-3.0', False), ('GPL-3.0 OR MIT', True), ('MIT/Apache-2.0', True), ('MIT AND GPL-3.0', False),
    ('(MIT OR GPL-3.0) AND Unicode-3.0', True), ('(MIT OR GPL-3.0) AND GPL-2.0', False),
    ('Apache-2.0 WITH LLVM-exception', True), ('Apache-2.0 WITH other-exception', False),
]:
    assert accepted(expression, allowed) == met, expression
";
    let judged = python(&["-c", cases]);
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
}
