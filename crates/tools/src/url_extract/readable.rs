//! Extracts the main text of a page. The page is read token by token without building a tree, so neither depth nor
//! broken markup is costly.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{HtmlString, StartTag, Token, Tokenizer};
use reqwest::Url;

use super::writer::Writer;

/// The minimum bytes of text for a part to count as the main content.
const LEAST: usize = 200;
/// Maximum length of a title, in characters.
const TITLE_CHARS: usize = 300;
/// Maximum length of a shown link address, in bytes.
const LINK_BYTES: usize = 300;

/// The text of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readable {
    /// The title; may be empty.
    pub title: String,
    /// The text: paragraphs separated by a blank line, headings with `#`, items with `-`, links with their addresses.
    pub text: String,
}

/// Extracts the text of the page at this address.
pub(super) fn readable(html: &str, address: &Url) -> Readable {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut reader = Reader::new(address);
    for token in Tokenizer::new_with_emitter(html, emitter).flatten() {
        match token {
            Token::StartTag(tag) => reader.start(&tag),
            Token::EndTag(tag) => reader.end(&tag.name),
            Token::String(text) => reader.text(&text),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if reader.all.is_full() {
            break;
        }
    }
    reader.finish()
}

/// The role of an element for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Never shown.
    Unseen,
    /// Surroundings of the main content.
    Beside,
    /// The main content.
    Main,
    /// A paragraph of its own.
    Block,
    /// A line of its own.
    Line,
    /// A line break before it.
    Break,
    Heading(u8),
    Item,
    Cell,
    Preformatted,
    Link,
    Picture,
    Title,
    Inline,
}

impl Role {
    fn of(name: &[u8]) -> Self {
        match name {
            b"script" | b"style" | b"noscript" | b"template" | b"svg" | b"math" | b"iframe" | b"object" | b"canvas"
            | b"audio" | b"video" | b"select" | b"textarea" | b"dialog" => Self::Unseen,
            b"nav" | b"aside" | b"footer" | b"form" | b"button" | b"menu" => Self::Beside,
            b"main" | b"article" => Self::Main,
            b"p" | b"ul" | b"ol" | b"dl" | b"blockquote" | b"table" | b"section" | b"header" | b"figure"
            | b"address" | b"details" | b"fieldset" | b"body" => Self::Block,
            b"div" | b"tr" | b"dt" | b"dd" | b"figcaption" | b"summary" | b"caption" => Self::Line,
            b"br" | b"hr" => Self::Break,
            [b'h', level @ b'1'..=b'6'] => Self::Heading(level - b'0'),
            b"li" => Self::Item,
            b"td" | b"th" => Self::Cell,
            b"pre" => Self::Preformatted,
            b"a" => Self::Link,
            b"img" => Self::Picture,
            b"title" => Self::Title,
            _ => Self::Inline,
        }
    }

    /// True if its end tag is required. Where it is optional, the end of a hidden element cannot be determined.
    fn needs_an_end(name: &[u8]) -> bool {
        matches!(
            name,
            b"div" | b"span" | b"section" | b"article" | b"ul" | b"ol" | b"table" | b"a" | b"b" | b"i" | b"font"
        )
    }
}

/// A skipped element, and the number of open elements of the same name inside it.
struct Left {
    name: HtmlString,
    open: u32,
}

struct Reader<'a> {
    address: &'a Url,
    title: String,
    in_title: bool,
    /// Set inside of an element that is never shown.
    unseen: Option<Left>,
    /// Set inside of surroundings.
    beside: Option<Left>,
    /// The number of open elements with the main content.
    main: u32,
    link: Option<Url>,
    all: Writer,
    content: Writer,
    core: Writer,
}

impl<'a> Reader<'a> {
    fn new(address: &'a Url) -> Self {
        Self {
            address,
            title: String::new(),
            in_title: false,
            unseen: None,
            beside: None,
            main: 0,
            link: None,
            all: Writer::default(),
            content: Writer::default(),
            core: Writer::default(),
        }
    }

    /// Applies `write` to each text that the current position belongs to.
    fn write(&mut self, write: impl Fn(&mut Writer)) {
        write(&mut self.all);
        if self.beside.is_none() {
            write(&mut self.content);
            if self.main > 0 {
                write(&mut self.core);
            }
        }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        if let Some(left) = &mut self.unseen {
            left.open += u32::from(left.name == tag.name);
            return;
        }
        if let Some(left) = &mut self.beside {
            left.open += u32::from(left.name == tag.name);
        }
        if is_hidden(tag) && !tag.self_closing {
            self.unseen = Some(Left { name: tag.name.clone(), open: 1 });
            return;
        }
        match Role::of(&tag.name) {
            Role::Unseen if !tag.self_closing => self.unseen = Some(Left { name: tag.name.clone(), open: 1 }),
            Role::Unseen | Role::Inline => {}
            Role::Beside => {
                self.write(|writer| writer.lines(2));
                self.beside.get_or_insert_with(|| Left { name: tag.name.clone(), open: 1 });
            }
            Role::Main => {
                // Unclosed surroundings end here.
                self.beside = None;
                self.main += 1;
                self.write(|writer| writer.lines(2));
            }
            Role::Block => self.write(|writer| writer.lines(2)),
            Role::Line | Role::Break => self.write(|writer| writer.lines(1)),
            Role::Heading(level) => {
                let mark = format!("{} ", "#".repeat(usize::from(level)));
                self.write(|writer| writer.begin(2, &mark));
            }
            Role::Item => self.write(|writer| writer.begin(1, "- ")),
            Role::Cell => self.write(Writer::cell),
            Role::Preformatted => self.write(Writer::open_preformatted),
            Role::Link => self.link = self.target(tag),
            Role::Picture => {
                if let Some(about) = attribute(tag, b"alt").filter(|about| !about.trim().is_empty()) {
                    self.write(|writer| writer.words(&format!("[image: {about}]")));
                }
            }
            Role::Title => self.in_title = self.title.is_empty(),
        }
    }

    fn end(&mut self, name: &HtmlString) {
        if let Some(left) = &mut self.unseen {
            left.open -= u32::from(left.name == *name);
            if left.open == 0 {
                self.unseen = None;
            }
            return;
        }
        match Role::of(name) {
            Role::Block | Role::Heading(_) => self.write(|writer| writer.lines(2)),
            Role::Line | Role::Item => self.write(|writer| writer.lines(1)),
            Role::Preformatted => self.write(Writer::close_preformatted),
            Role::Main => {
                self.write(|writer| writer.lines(2));
                self.main = self.main.saturating_sub(1);
            }
            Role::Beside => self.write(|writer| writer.lines(2)),
            Role::Link => {
                if let Some(link) = self.link.take() {
                    self.write(|writer| writer.link(link.as_str()));
                }
            }
            Role::Title => self.in_title = false,
            Role::Break | Role::Cell | Role::Picture | Role::Unseen | Role::Inline => {}
        }
        if let Some(left) = &mut self.beside {
            left.open -= u32::from(left.name == *name);
            if left.open == 0 {
                self.beside = None;
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        if self.unseen.is_some() {
            return;
        }
        let text = String::from_utf8_lossy(text);
        if self.in_title {
            let room = TITLE_CHARS.saturating_sub(self.title.chars().count());
            self.title.extend(text.chars().take(room));
        } else {
            self.write(|writer| writer.words(&text));
        }
    }

    /// Returns the target of a link, unless it is within the page or not readable.
    fn target(&self, tag: &StartTag<()>) -> Option<Url> {
        let text = attribute(tag, b"href").filter(|text| text.len() <= LINK_BYTES && !text.starts_with('#'))?;
        let target = self.address.join(&text).ok()?;
        (matches!(target.scheme(), "http" | "https") && target.as_str().len() <= LINK_BYTES).then_some(target)
    }

    /// Returns the main content if it can be separated from the rest, else all text.
    fn finish(self) -> Readable {
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let [core, content, all] = [self.core, self.content, self.all].map(Writer::finish);
        let text = [core, content].into_iter().find(|text| text.len() >= LEAST).unwrap_or(all);
        Readable { title, text }
    }
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    tag.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// True if readers of the page never see the element: its text is not meant for them.
fn is_hidden(tag: &StartTag<()>) -> bool {
    if !Role::needs_an_end(&tag.name) {
        return false;
    }
    let style = attribute(tag, b"style").unwrap_or_default().to_ascii_lowercase();
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    tag.attributes.contains_key(&b"hidden"[..])
        || ["display:none", "visibility:hidden", "font-size:0", "opacity:0;"].iter().any(|hides| style.contains(hides))
}

#[cfg(test)]
mod tests;
