use std::io::{Cursor, Write as _};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

/// A document that a common program made; `fixtures/make.py` says which.
macro_rules! fixture {
    ($name:literal) => {
        &include_bytes!(concat!("../fixtures/", $name))[..]
    };
}

const MOST: usize = 24_000;

fn of(bytes: &[u8]) -> DocumentText {
    read(bytes, MOST).unwrap()
}

/// Returns an archive with these members.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in members {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Returns a Word document with this body.
fn word(body: &str) -> Vec<u8> {
    let xml = format!("<w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>");
    archive(&[("word/document.xml", xml.as_bytes())])
}

#[test]
fn a_pdf_is_read_by_pages() {
    let read = of(fixture!("report.pdf"));
    insta::assert_snapshot!(read.text, @r##"
    ## Page 1
    Harvest report of the orchard
    The ledger names 42 quinces.

    ## Page 2
    Second page: pears & plums, Größe 7
    "##);
    assert_eq!((read.about().as_str(), read.cut), ("PDF, 2 pages", false));
    // A password for changes alone hides nothing.
    assert_eq!(of(fixture!("readable.pdf")), read);
}

#[test]
fn a_word_document_keeps_headings_lists_and_tables() {
    let read = of(fixture!("minutes.docx"));
    insta::assert_snapshot!(read.text, @r##"
    # Minutes

    ## Decisions
    The quorum was reached & noted.
    - buy apples

    | Name | Amount |
    | --- | --- |
    | Ada | 3 \| 4 |
    | Ben | 5 |

    After the table.
    "##);
    assert_eq!(read.about(), "Word document");
}

#[test]
fn sheets_are_tables_of_values_and_distant_cells_cost_nothing() {
    let read = of(fixture!("stock.xlsx"));
    insta::assert_snapshot!(read.text, @r##"
    ## Sheet Stock

    | Fruit | Count | Picked |
    | --- | --- | --- |
    | Quince | 42 | 2026-10-03 |
    | Medlar | 7.5 | 2026-10-04 08:30:00 |
    (A row has more than 256 columns; the others are left out.)

    ## Sheet Notes (hidden)

    |  | kept in the cellar |
    | --- | --- |
    "##);
    assert_eq!(read.about(), "spreadsheet, 2 sheets");
    let open = of(fixture!("herbs.ods"));
    insta::assert_snapshot!(open.text, @r##"
    ## Sheet Open

    | Herb | Pots |
    | --- | --- |
    | Sage | 12 |
    "##);
}

#[test]
fn slides_are_numbered_and_keep_tables_and_notes() {
    let read = of(fixture!("plans.pptx"));
    insta::assert_snapshot!(read.text, @r##"
    ## Slide 1
    **Orchard plans**
    for the spring

    ## Slide 2
    **Costs**

    | Tool | Price |
    | --- | --- |
    | Ladder | 80 |

    Notes:
    Ask Ben about the ladder.
    "##);
    assert_eq!(read.about(), "presentation, 2 slides");
}

#[test]
fn macros_are_stated_and_not_shown() {
    let read = of(fixture!("macros.xlsm"));
    assert_eq!(read.about(), "spreadsheet, 2 sheets, with macros, which were not run");
    assert!(read.text.contains("Quince") && !read.text.contains("AutoOpen"), "{}", read.text);
}

#[test]
fn a_document_without_readable_text_has_a_reason() {
    for (name, bytes, why) in [
        ("a password", fixture!("password.pdf"), Unread::Protected),
        ("a password", fixture!("password.xlsx"), Unread::Protected),
        ("a scan", fixture!("scan.pdf"), Unread::NoText),
        ("a cut", &fixture!("minutes.docx")[..20_000], Unread::Damaged),
        ("a cut", &fixture!("stock.xlsx")[..3_000], Unread::Damaged),
        ("half a PDF", &fixture!("report.pdf")[..400], Unread::Damaged),
        ("another archive", &archive(&[("readme.txt", b"hello")]), Unread::Kind),
        ("an empty archive", &archive(&[]), Unread::Mismatch),
        ("an older text", &[b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), vec![0; 2_000]].concat(), Unread::Kind),
        ("an empty document", &word("<w:p/>"), Unread::NoText),
        ("no XML", &archive(&[("word/document.xml", b"<w:p><w:t>a</w:p>")]), Unread::Damaged),
    ] {
        assert_eq!(read(bytes, MOST), Err(why), "{name}");
    }
}

#[test]
fn an_archive_that_unpacks_without_end_is_refused() {
    let zeros = vec![0; 65 << 20];
    let bomb = archive(&[("word/document.xml", b"<w:p/>"), ("word/media/image1.png", &zeros)]);
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    assert_eq!(read(&bomb, MOST), Err(Unread::Unpacked));
    let names: Vec<String> = (0..5_001).map(|number| format!("{number}")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert_eq!(read(&archive(&members), MOST), Err(Unread::Unpacked));
}

#[test]
fn entities_are_not_expanded() {
    let declared =
        "<!DOCTYPE d [<!ENTITY a \"boom\"><!ENTITY b \"&a;&a;&a;\"><!ENTITY f SYSTEM \"file:///etc/passwd\">]>";
    let text = "<w:p><w:r><w:t>x &b; &f; &amp; &#228;</w:t></w:r></w:p>";
    let xml = format!("{declared}<w:document>{text}</w:document>");
    assert_eq!(read(&archive(&[("word/document.xml", xml.as_bytes())]), MOST), Err(Unread::Damaged));
    assert_eq!(of(&word(text)).text, "x   & ä");
}

#[test]
fn deep_xml_is_refused() {
    let deep =
        |many: usize| word(&format!("{}<w:p><w:r><w:t>x</w:t></w:r></w:p>{}", "<a>".repeat(many), "</a>".repeat(many)));
    assert_eq!(of(&deep(100)).text, "x");
    assert_eq!(read(&deep(300), MOST), Err(Unread::Complex));
}

#[test]
fn removed_text_and_copies_for_older_programs_are_left_out() {
    let run = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let body = format!(
        "<w:p>{}<w:del>{}</w:del><w:moveFrom>{}</w:moveFrom><mc:Fallback>{}</mc:Fallback><w:r><w:tab/></w:r>{}</w:p>",
        run("kept"),
        run("removed"),
        run("moved"),
        run("copy"),
        run("too")
    );
    assert_eq!(of(&word(&body)).text, "kept\ttoo");
}

#[test]
fn text_is_cut_at_the_limit_and_the_cut_is_stated() {
    let long = word(&"<w:p><w:r><w:t>größe</w:t></w:r></w:p>".repeat(1_000));
    let whole = of(&long);
    assert_eq!((whole.text.chars().count(), whole.cut), (5_999, false));
    let cut = read(&long, 100).unwrap();
    assert_eq!((cut.text.chars().count(), cut.cut), (100, true));
    for bytes in [fixture!("report.pdf"), fixture!("stock.xlsx"), fixture!("plans.pptx")] {
        let cut = read(bytes, 30).unwrap();
        assert!(cut.text.chars().count() <= 30 && cut.cut, "{cut:?}");
    }
    // One paragraph, or one cell, holds no more than fits.
    let cell =
        format!("<w:tbl><w:tr><w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc></w:tr></w:tbl>", "x".repeat(50_000));
    assert!(read(&word(&cell), 100).unwrap().cut);
}

#[test]
fn a_document_costs_no_more_than_its_length() {
    let documents = |size: usize| {
        let (paragraph, row) =
            ("<w:p><w:r><w:t>a b</w:t></w:r></w:p>", "<w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr>");
        let paragraphs = word(&paragraph.repeat(size / paragraph.len()));
        let table = word(&format!("<w:tbl>{}</w:tbl>", row.repeat(size / row.len())));
        let words = word(&format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "a &amp; ".repeat(size / 8)));
        vec![paragraphs, table, words]
    };
    cost::grows_linearly(16 * 1024, documents, |documents| {
        for bytes in documents {
            drop(read(&bytes, usize::MAX / 8));
        }
    });
}
