//! The tools of one turn: those its caller may see, those its model is shown, and the remaining calls.
//!
//! Two further tools are answered here because they depend only on the turn: one searches for tools if not all are
//! shown, one pages through a result that was truncated.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::access::Access;
use super::catalogue::{Catalogue, CatalogueEntry};
use super::choice::{AddedTool, AddedTools, Chosen, LaneTools, room};
use super::round::{self, CallAllowance, Planned, Problem, Ready};
use super::selection::{FIND_TOOLS, Index, MATCHES_MAX};
use super::view::View;
use super::{Effect, ServerName, Source};
use crate::clean::clean;
use crate::completion::{ANSWER_FUNCTION, ToolCall, ToolSpec, WrittenJson};
use crate::hosted::{HostedKind, HostedTool, WEB_SEARCH};

/// The result of the function for the answer if the model calls tools beside it.
const NOT_YET: &str = "The answer was not sent, because results of tools were still to come. Call give_answer again.";

/// The name of the tool that pages through a long result.
pub const READ_RESULT: &str = "read_result";
/// The size of one page of a long result, in bytes.
const PAGE_BYTES: usize = 16 * 1024;
/// The maximum number of characters of a description in a search result.
const FOUND_CHARS: usize = 200;

/// The available tools and the rights of the caller.
#[derive(Debug, Clone)]
pub struct Available {
    /// All tools.
    pub catalogue: Arc<Catalogue>,
    /// The word index for searches.
    pub index: Arc<Index>,
    /// The rights of the caller.
    pub access: Arc<Access>,
    /// The tools visible to the caller.
    pub view: Arc<View>,
    /// Definitions that replace those of the catalogue for this caller.
    pub outlined: Arc<[Arc<ToolSpec>]>,
    /// The choice of the last prompt of the lane, or the recent numbers of calls.
    pub lane: LaneTools,
    /// True if the built-in tools alone justify a model call that only offers tools.
    pub built_in_always: bool,
    /// The maximum size of tool definitions in one prompt, in bytes.
    pub prompt_bytes: usize,
}

/// The tools of one turn.
#[derive(Debug)]
pub struct TurnTools {
    available: Available,
    worth_a_call: bool,
    allowance: CallAllowance,
    /// The question, whose words select tools.
    question: String,
    /// The tools to show after the first ones if there is no room for all.
    added: AddedTools,
    /// Long results in full, by their numbers; empty for those that are gone.
    kept: Vec<Arc<str>>,
}

/// The result of one call, as shown to the model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShownResult {
    /// The text: untrusted data if it comes from a tool.
    pub text: String,
    /// The full text, if the text is truncated.
    pub whole: Option<Arc<str>>,
    /// The number of images of the result that are posted with the answer.
    pub pictures: usize,
}

impl ShownResult {
    /// Builds a result of this text only.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// The stored state of the tools of a suspended turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedTools {
    allowance: CallAllowance,
    question: String,
    /// The names of the tools that this turn added, in order.
    found: Vec<String>,
    /// The names of the tools that the last search returned, best first.
    #[serde(default)]
    newest: Vec<String>,
    kept: Vec<String>,
}

impl SavedTools {
    /// Returns the bytes of the long results.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept.iter().map(String::len).sum()
    }

    /// Removes the long results. Their numbers stay taken.
    pub fn drop_kept(&mut self) {
        self.kept.iter_mut().for_each(String::clear);
    }
}

impl TurnTools {
    /// Returns the state to be stored while the turn is suspended.
    #[must_use]
    pub fn save(&self) -> SavedTools {
        let name = |place: usize| self.available.catalogue.entries()[place].name.to_string();
        let added = |tool: &AddedTool| tool.place().map_or_else(|| READ_RESULT.to_owned(), name);
        SavedTools {
            allowance: self.allowance.clone(),
            question: self.question.clone(),
            found: self.added.found.iter().map(added).collect(),
            newest: self.added.newest.iter().map(|place| name(*place)).collect(),
            kept: self.kept.iter().map(ToString::to_string).collect(),
        }
    }

    /// Restores the tools of a resumed turn, with the tools that are now available.
    #[must_use]
    pub fn resume(available: Available, saved: SavedTools) -> Self {
        let worth_a_call = available.view.worth_a_call(available.built_in_always);
        let SavedTools { allowance, question, found, newest, kept } = saved;
        let kept: Vec<Arc<str>> = kept.into_iter().map(Arc::from).collect();
        let place = |name: &String| position(&available, name);
        let listed = |name: &String| match name.as_str() {
            READ_RESULT => Some(AddedTool::ReadResult),
            _ => place(name).map(AddedTool::Listed),
        };
        let mut added = AddedTools {
            earlier: earlier(&available),
            found: found.iter().filter_map(listed).collect(),
            newest: newest.iter().filter_map(place).collect(),
        };
        if !kept.is_empty() {
            added.add(AddedTool::ReadResult);
        }
        Self { available, worth_a_call, allowance, question, added, kept }
    }

    /// Plans a call from before the suspension again, bound to the current version of its tool.
    #[must_use]
    pub fn plan_again(&self, call: ToolCall) -> Planned {
        let Available { catalogue, access, .. } = &self.available;
        match Ready::bind(&call, catalogue, |entry| access.sees(entry)) {
            Ok(ready) => Planned::Run(Box::new(ready)),
            Err(problem) => Planned::Answer(call, problem),
        }
    }

    /// Builds the tools for a question; none if the caller may see no tools, or if there are no rounds or calls.
    #[must_use]
    pub fn new(available: Available, allowance: CallAllowance, question: &str) -> Option<Self> {
        let worth_a_call = available.view.worth_a_call(available.built_in_always);
        (!available.view.is_empty() && allowance.is_open()).then(|| Self {
            added: AddedTools { earlier: earlier(&available), ..AddedTools::default() },
            available,
            worth_a_call,
            allowance,
            question: question.to_owned(),
            kept: Vec::new(),
        })
    }

    /// True if tools may still be called.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.allowance.is_open()
    }

    /// True if tools are offered even to a model that cannot combine tools with the answer format, at the price of one
    /// further model call for each plain message.
    #[must_use]
    pub const fn worth_a_call(&self) -> bool {
        self.worth_a_call
    }

    /// Returns the tools shown to a model that supports up to `most` tools: all in catalogue order if they fit, else a
    /// selection with a tool that searches for the others. Tools of later calls follow those of earlier ones.
    #[must_use]
    pub fn specs(&self, most: usize) -> Vec<Arc<ToolSpec>> {
        let spec = |place: usize| Arc::clone(self.spec(place));
        let added = |tool: AddedTool| tool.place().map_or_else(read_result, spec);
        if let Some(places) = self.all(most) {
            let all = places.iter().map(|place| spec(*place as usize));
            return all.chain((!self.kept.is_empty()).then(read_result)).collect();
        }
        let (first, further) = self.chosen(most);
        first.into_iter().map(spec).chain([find_tools()]).chain(further.into_iter().map(added)).collect()
    }

    /// Returns the choice to repeat in the next prompts of the lane; `None` if all tools fit.
    #[must_use]
    pub fn lane_tools(&self, most: usize) -> Option<LaneTools> {
        if self.all(most).is_some() {
            return None;
        }
        let name = |place: usize| Arc::clone(&self.available.catalogue.entries()[place].name);
        let added = self.chosen(most).1.into_iter().filter_map(AddedTool::place).map(name).collect();
        Some(LaneTools { used: Arc::clone(&self.available.lane.used), added })
    }

    /// Returns the indices of all visible tools if they fit.
    fn all(&self, most: usize) -> Option<&[u32]> {
        let Available { view, prompt_bytes, .. } = &self.available;
        view.all(most, prompt_bytes.saturating_sub(self.longer()))
    }

    /// Returns the tools among these that the provider may run itself: those whose calls always run without approval.
    /// Tools that change something run here, because a repeated request to the provider would repeat their calls.
    #[must_use]
    pub fn hosted(&self, specs: &[Arc<ToolSpec>], web_search: bool, servers: bool) -> Vec<HostedTool> {
        let Available { catalogue, access, .. } = &self.available;
        let mut hosted = Vec::new();
        let searches = || match catalogue.get(WEB_SEARCH) {
            Some(entry) => access.always_runs(entry),
            None => access.always_runs_named(WEB_SEARCH),
        };
        if web_search && searches() {
            hosted.push(HostedTool { kind: HostedKind::WebSearch, replaces: vec![WEB_SEARCH.to_owned()] });
        }
        let mut by_server: BTreeMap<&ServerName, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for entry in specs.iter().filter(|_| servers).filter_map(|spec| self.entry(&spec.name)) {
            if let Source::Server(server) = &entry.tool.source
                && entry.tool.utility.is_none()
                && entry.effect != Effect::Changes
                && access.always_runs(entry)
            {
                let (tools, replaces) = by_server.entry(server).or_default();
                tools.push(entry.tool.name.to_string());
                replaces.push(entry.name.to_string());
            }
        }
        hosted.extend(by_server.into_iter().map(|(name, (tools, replaces))| HostedTool {
            kind: HostedKind::Server { name: name.clone(), tools },
            replaces,
        }));
        hosted
    }

    /// Returns the definition of the tool at this index of the catalogue, as shown to this caller's model.
    fn spec(&self, place: usize) -> &Arc<ToolSpec> {
        let Available { catalogue, outlined, .. } = &self.available;
        let usual = &catalogue.entries()[place].spec;
        outlined.iter().find(|spec| spec.name == usual.name).unwrap_or(usual)
    }

    /// Returns the number of bytes that this caller's definitions add to those of the catalogue.
    fn longer(&self) -> usize {
        let Available { catalogue, outlined, .. } = &self.available;
        let more = outlined.iter().filter_map(|spec| {
            let usual = catalogue.get(&spec.name)?.spec.bytes();
            Some(spec.bytes().saturating_sub(usual))
        });
        more.sum()
    }

    /// Selects as many tools as fit beside the tool that searches: first the same in each prompt of the lane, in
    /// catalogue order, then those that were added.
    fn chosen(&self, most: usize) -> (Vec<usize>, Vec<AddedTool>) {
        let Available { prompt_bytes, index, .. } = &self.available;
        let bytes = |place: usize| self.spec(place).bytes();
        let room = room(most);
        let most = most.saturating_sub(1);
        let newest = self.added.newest.first().map_or(0, |place| bytes(*place));
        let first_bytes = (prompt_bytes / 2).min(prompt_bytes.saturating_sub(newest));
        let first = self.first(most, most.saturating_sub(room), first_bytes);
        let left = prompt_bytes - (first_bytes - first.left);
        let named = index.named(&self.question, MATCHES_MAX / 2, |place| self.sees(place));
        let further = self.added.shown(&first.places, &named, Chosen::new(room.min(most), left), bytes);
        (first.places, further)
    }

    /// Selects the first tools of a prompt. The priority is: built-in tools, the most called tools, then the first of
    /// the others.
    fn first(&self, places: usize, most: usize, left: usize) -> Chosen {
        let Available { catalogue, view, lane, .. } = &self.available;
        let bytes = |place: usize| self.spec(place).bytes();
        let mut chosen = Chosen::new(most, left);
        let built_in = view.built_in().iter().map(|place| *place as usize);
        chosen.add(built_in, places / 2, bytes);
        let used = lane.used.iter().filter_map(|(name, times)| Some((*times, catalogue.position(name)?)));
        let mut by_use: Vec<(u32, usize)> = used.filter(|(_, place)| is_visible(view, *place)).collect();
        by_use.sort_unstable_by_key(|(times, place)| (std::cmp::Reverse(*times), *place));
        chosen.add(by_use.iter().map(|(_, place)| *place), places.div_ceil(4), bytes);
        chosen.add(view.first(most * 4).iter().map(|place| *place as usize), most, bytes);
        chosen.places.sort_unstable();
        chosen
    }

    fn sees(&self, place: u32) -> bool {
        self.available.view.shows(place)
    }

    /// True if the name belongs to a tool that the caller may see.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        [FIND_TOOLS, READ_RESULT].contains(&name) || self.entry(name).is_some()
    }

    /// True if a call names a tool that the caller may see, with valid arguments.
    #[must_use]
    pub fn fits(&self, call: &ToolCall) -> bool {
        let fits =
            |entry: &Arc<CatalogueEntry>| round::read(&call.arguments).is_ok_and(|read| entry.check(&read).is_ok());
        self.entry(&call.name).map_or_else(|| self.knows(&call.name), fits)
    }

    fn entry(&self, name: &str) -> Option<&Arc<CatalogueEntry>> {
        let Available { catalogue, access, .. } = &self.available;
        catalogue.get(name).filter(|entry| access.sees(entry))
    }

    /// Plans one round of calls, in the order of the model.
    pub fn plan(&mut self, calls: Vec<ToolCall>) -> Vec<Planned> {
        self.allowance.begin_round();
        calls.into_iter().map(|call| self.planned(call)).collect()
    }

    fn planned(&mut self, call: ToolCall) -> Planned {
        let own: fn(&mut Self, &Map<String, Value>) -> String = match &*call.name {
            ANSWER_FUNCTION => return Planned::Told(call, NOT_YET.to_owned()),
            FIND_TOOLS => Self::find,
            READ_RESULT => Self::page,
            _ => {
                let Available { catalogue, access, .. } = &self.available;
                return self.allowance.plan_one(call, catalogue, |entry| access.sees(entry));
            }
        };
        if let Err(problem) = self.allowance.spend() {
            return Planned::Answer(call, problem);
        }
        match round::read(&call.arguments) {
            Ok(Value::Object(arguments)) => {
                let text = own(self, &arguments);
                Planned::Told(call, text)
            }
            Ok(_) => Planned::Answer(call, Problem::Misfit("the arguments must be one JSON object".to_owned())),
            Err(problem) => Planned::Answer(call, problem),
        }
    }

    /// Answers a search for tools.
    fn find(&mut self, arguments: &Map<String, Value>) -> String {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let places = self.available.index.find(query, MATCHES_MAX, |place| self.sees(place));
        if places.is_empty() {
            return "No tool fits. Try other words, or answer without one.".to_owned();
        }
        let short = |text: &str| text.chars().take(FOUND_CHARS).collect::<String>();
        let line = |place: &usize| {
            let entry = &self.available.catalogue.entries()[*place];
            let about = entry.about.as_deref().map(|about| format!(" (of a server for: {})", short(about)));
            format!("- {}: {}{}", entry.name, short(&self.spec(*place).description), about.unwrap_or_default())
        };
        let lines: Vec<String> = places.iter().map(line).collect();
        self.added.find(places);
        format!("You can call these now:\n{}", lines.join("\n"))
    }

    /// Answers with a page of a long result.
    fn page(&mut self, arguments: &Map<String, Value>) -> String {
        let number = |key: &str| arguments.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let Some(whole) = number("result").and_then(|n| self.kept.get(n.checked_sub(1)?)) else {
            return "There is no such result: name the number that the cut result told.".to_owned();
        };
        if whole.is_empty() {
            return "The whole of this result is gone: use what it showed, or call its tool again.".to_owned();
        }
        let from = whole.floor_char_boundary(number("offset").unwrap_or(0).min(whole.len()));
        let to = whole.floor_char_boundary((from + PAGE_BYTES).min(whole.len()));
        // The text is from a tool, so invisible characters are removed, as in the result.
        format!("Bytes {from} to {to} of {}:\n{}", whole.len(), clean(&whole[from..to], usize::MAX))
    }

    /// Returns the result of a call as the model reads it: without invisible characters, and fenced, so that its text
    /// cannot pass as instructions of ours.
    pub fn result(&mut self, call: &ToolCall, told: ShownResult) -> String {
        // Invisible characters could split the marks of the fence.
        let mut fenced = fenced(&call.name, &clean(&told.text, usize::MAX));
        if told.pictures > 0 {
            fenced.push_str("\nIts picture is posted with your answer: do not describe where to find it.");
        }
        let Some(whole) = told.whole else { return fenced };
        self.kept.push(whole);
        self.added.add(AddedTool::ReadResult);
        let number = self.kept.len();
        format!(
            "{fenced}\nThis result was cut. {READ_RESULT} with {{\"result\": {number}, \"offset\": 0}} gives the whole of it, \
             page by page."
        )
    }
}

/// Returns the indices of the tools that the last prompt of the lane added.
fn earlier(available: &Available) -> Vec<usize> {
    available.lane.added.iter().filter_map(|name| position(available, name)).collect()
}

/// Returns the index of a visible tool.
fn position(available: &Available, name: &str) -> Option<usize> {
    available.catalogue.position(name).filter(|place| is_visible(&available.view, *place))
}

/// True if the tool at this index of the catalogue is visible.
fn is_visible(view: &View, place: usize) -> bool {
    u32::try_from(place).is_ok_and(|place| view.shows(place))
}

fn fenced(tool: &str, text: &str) -> String {
    const END: &str = "</tool_result";
    let name: String = tool.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).take(64).collect();
    let lower = text.to_ascii_lowercase();
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in lower.match_indices(END) {
        kept.push_str(&text[from..at]);
        kept.push_str("<\\/");
        from = at + 2;
    }
    kept.push_str(&text[from..]);
    format!("<tool_result tool=\"{name}\">\n{kept}\n</tool_result>")
}

fn find_tools() -> Arc<ToolSpec> {
    let parameters = json!({"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
        "query": {"type": "string", "description": "what the tool should do, in a few English words"},
    }});
    let description = "Finds more tools by what they do. Those that it names can be called afterwards.".to_owned();
    let parameters = WrittenJson::new(&parameters);
    Arc::new(ToolSpec { name: FIND_TOOLS.to_owned(), description, parameters })
}

fn read_result() -> Arc<ToolSpec> {
    let parameters = json!({"type": "object", "required": ["result"], "additionalProperties": false, "properties": {
        "result": {"type": "integer", "description": "the number of the cut result"},
        "offset": {"type": "integer", "description": "the byte at which to go on; 0 at first"},
    }});
    let description = "Reads a tool's result that was cut, page by page.".to_owned();
    let parameters = WrittenJson::new(&parameters);
    Arc::new(ToolSpec { name: READ_RESULT.to_owned(), description, parameters })
}

#[cfg(test)]
mod tests;
