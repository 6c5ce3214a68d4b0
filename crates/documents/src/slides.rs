//! Presentations: the slides in their order, with their tables and notes.

use std::collections::HashMap;
use std::io::BufRead;

use quick_xml::XmlVersion;
use quick_xml::events::Event;

use super::archive::Archive;
use super::flow::{Flow, Headings, Next, attribute, events};
use super::output::Output;
use domain::attachment::Unread;

/// Maximum number of slides that are read.
const SLIDES_MAX: usize = 1_000;

/// A relation of a member to another one.
struct Relation {
    kind: String,
    target: String,
}

/// Reads a presentation. Returns the number of slides.
///
/// # Errors
/// The presentation is damaged.
pub(crate) fn read(archive: &mut Archive<'_>, output: &mut Output) -> Result<usize, Unread> {
    let order = archive.member("ppt/presentation.xml").map(order).transpose()?.unwrap_or_default();
    let relations = relations(archive, "ppt/presentation.xml")?;
    let slides: Vec<&Relation> = order.iter().filter_map(|id| relations.get(id)).collect();
    let styles = Headings::new();
    for (number, slide) in (1..).zip(slides.iter().take(SLIDES_MAX)) {
        if output.is_full() {
            break;
        }
        output.heading(2, &format!("Slide {number}"));
        let path = path("ppt/", &slide.target);
        let Some(member) = archive.member(&path) else { continue };
        Flow::new(output, &styles).read(member)?;
        notes(archive, &path, output)?;
    }
    if slides.len() > SLIDES_MAX {
        output.cut();
    }
    Ok(slides.len())
}

/// Reads the notes of a slide.
fn notes(archive: &mut Archive<'_>, slide: &str, output: &mut Output) -> Result<(), Unread> {
    let found = self::relations(archive, slide)?.into_values().find(|to| to.kind.ends_with("/notesSlide"));
    let Some(member) = found.and_then(|to| archive.member(&path("ppt/slides/", &to.target))) else { return Ok(()) };
    let mut notes = Output::new(output.room());
    Flow::new(&mut notes, &Headings::new()).read(member)?;
    let (text, cut) = notes.done();
    if !text.is_empty() {
        output.line("Notes:");
        output.line(&text);
    }
    if cut {
        output.cut();
    }
    Ok(())
}

/// Returns the ids of the slides, in their order.
fn order(member: impl BufRead) -> Result<Vec<String>, Unread> {
    let mut ids = Vec::new();
    events(member, |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "sldId"
        {
            // The element has two ids: a number, and one with a prefix that names a relation.
            let relation = element
                .attributes()
                .flatten()
                .find(|attribute| attribute.key.local_name().as_ref() == "id" && attribute.key.prefix().is_some());
            ids.extend(relation.and_then(|id| Some(id.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned())));
        }
        Ok(Next::Go)
    })?;
    Ok(ids)
}

/// Returns the relations of a member, by id.
fn relations(archive: &mut Archive<'_>, of: &str) -> Result<HashMap<String, Relation>, Unread> {
    let (folder, name) = of.rsplit_once('/').unwrap_or(("", of));
    let mut found = HashMap::new();
    let Some(member) = archive.member(&format!("{folder}/_rels/{name}.rels")) else { return Ok(found) };
    events(member, |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && let (Some(id), Some(kind), Some(target)) =
                (attribute(element, "Id"), attribute(element, "Type"), attribute(element, "Target"))
        {
            found.insert(id, Relation { kind, target });
        }
        Ok(Next::Go)
    })?;
    Ok(found)
}

/// Returns the path of a target in the archive, which is absolute or relative to a folder.
fn path(folder: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut parts: Vec<&str> = folder.trim_end_matches('/').split('/').collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
