//! Word documents: paragraphs, headings, lists, tables, notes and comments.

use std::io::BufRead;

use quick_xml::events::Event;

use super::archive::Archive;
use super::flow::{Flow, Headings, Next, attribute, events};
use super::output::Output;
use domain::attachment::Unread;

/// The members with text outside of the pages, and their titles.
const ASIDE: [(&str, &str); 3] =
    [("word/footnotes.xml", "Footnotes"), ("word/endnotes.xml", "Endnotes"), ("word/comments.xml", "Comments")];
/// The beginnings of the names that styles have in each language: of headings, whose levels follow, and of items.
const HEADING: &str = "heading ";
const ITEM: &str = "list ";

/// Reads a document. It has no parts: only a layout gives it pages.
///
/// # Errors
/// The document is damaged.
pub(crate) fn read(archive: &mut Archive<'_>, output: &mut Output) -> Result<usize, Unread> {
    let styles = archive.member("word/styles.xml").map(headings).transpose()?.unwrap_or_default();
    let body = archive.member("word/document.xml").ok_or(Unread::Damaged)?;
    Flow::new(output, &styles).read(body)?;
    for (name, title) in ASIDE {
        let Some(member) = archive.member(name) else { continue };
        let mut aside = Output::new(output.room());
        Flow::new(&mut aside, &styles).read(member)?;
        let (text, cut) = aside.done();
        if !text.is_empty() {
            output.heading(2, title);
            output.line(&text);
        }
        if cut {
            output.cut();
        }
    }
    Ok(0)
}

/// Returns the styles that are headings or items.
fn headings(member: impl BufRead) -> Result<Headings, Unread> {
    let (mut found, mut style) = (Headings::new(), None);
    events(member, |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "style" => style = attribute(element, "styleId"),
                "name" => {
                    let name = attribute(element, "val").unwrap_or_default().to_ascii_lowercase();
                    let level = level(&name);
                    if let (Some(id), Some(level)) = (style.take(), level) {
                        found.insert(id, level);
                    }
                }
                _ => {}
            }
        }
        Ok(Next::Go)
    })?;
    Ok(found)
}

/// Returns the level of a style by its name; `None` for ordinary text.
fn level(name: &str) -> Option<usize> {
    if name == "title" {
        return Some(1);
    }
    if name.starts_with(ITEM) {
        return Some(0);
    }
    name.strip_prefix(HEADING)?.parse().ok()
}
