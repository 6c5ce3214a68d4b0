//! Saves a dialogue that waits for a decision in the middle of a round, and resumes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rounds::{Round, SHORTENED, SHORTENED_INSIDE, shorten};
use super::{Dialogue, Stage};
use crate::completion::{Accepts, Item, Role, ToolCall, WrittenJson};
use crate::prompt::Transcript;
use crate::reply::Schema;
use crate::tool::begun::Begun;
use crate::tool::round::{Planned, Ready};
use crate::tool::turn_tools::{Available, SavedTools, ShownResult, TurnTools};
use crate::turn::ReplyContract;

/// The complete state needed to resume. Pictures are omitted, and the text says so; files are omitted for their text.
#[derive(Debug, Serialize, Deserialize)]
pub struct Saved {
    transcript: Vec<SavedItem>,
    remembered: Vec<usize>,
    tools: SavedTools,
    rounds: Vec<SavedRound>,
    running: SavedRound,
    /// The results of the first calls of the running round.
    done: Vec<SavedTold>,
    /// The remaining calls, in order.
    left: Vec<SavedCall>,
    fallback: Option<String>,
    /// The number of calls started, including those of clean calls.
    #[serde(default)]
    called: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedItem {
    role: Role,
    content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<WrittenJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_of: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedRound {
    row: Option<String>,
    echo: SavedItem,
    calls: Vec<ToolCall>,
    results: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedTold {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    whole: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedCall {
    call: ToolCall,
    /// The result, if the call needs no tool.
    told: Option<String>,
    /// The result, if the call ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ran: Option<SavedTold>,
    /// The state of a call that its server has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<Box<Begun>>,
}

impl Saved {
    /// Returns the bytes of the long results that it keeps in full.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let told = self.done.iter().chain(self.left.iter().filter_map(|call| call.ran.as_ref()));
        let wholes = told.filter_map(|told| told.whole.as_ref());
        self.tools.kept_bytes() + wholes.map(String::len).sum::<usize>()
    }

    /// Returns it without the full texts of long results; their beginnings and ends remain.
    #[must_use]
    pub fn without_kept(mut self) -> Self {
        self.tools.drop_kept();
        let told = self.done.iter_mut().chain(self.left.iter_mut().filter_map(|call| call.ran.as_mut()));
        told.for_each(|told| told.whole = None);
        self
    }

    /// Removes the later half of each long result. False if there is none.
    pub fn shorten(&mut self) -> bool {
        let told = self.done.iter_mut().chain(self.left.iter_mut().filter_map(|call| call.ran.as_mut()));
        let results = self.rounds.iter_mut().flat_map(|round| &mut round.results);
        let fenced = results.filter_map(|text| shorten(text, SHORTENED).then_some(())).count();
        fenced + told.filter_map(|told| shorten(&mut told.text, SHORTENED_INSIDE).then_some(())).count() > 0
    }
}

/// A dialogue that continues with the remaining calls of its round.
pub struct Resumed {
    /// The dialogue.
    pub dialogue: Dialogue,
    /// The results of the first calls of the round.
    pub done: Vec<ShownResult>,
    /// The remaining calls, bound to the tools available now.
    pub left: Vec<Planned>,
    /// The number of calls started, including those of clean calls.
    pub called: usize,
}

impl Dialogue {
    /// Returns the state to store while a call of the running round waits. Of the round's calls, `done` are completed
    /// and `left` are not; `called` counts all started calls. `None` if no round is running.
    #[must_use]
    pub fn save(&self, done: &[ShownResult], left: &[Planned], called: usize) -> Option<Saved> {
        let Stage::Running(round) = &self.stage else { return None };
        let tools = self.tools.as_ref()?;
        let call = |planned: &Planned| SavedCall {
            call: planned.call().clone(),
            told: match planned {
                Planned::Run(_) => None,
                Planned::Answer(_, problem) => Some(problem.to_string()),
                Planned::Told(_, text) => Some(text.clone()),
                // Versions before the field `ran` read the text from here.
                Planned::Ran(_, told) => Some(told.text.clone()),
            },
            ran: match planned {
                Planned::Ran(_, told) => Some(SavedTold::of(told)),
                Planned::Run(_) | Planned::Answer(..) | Planned::Told(..) => None,
            },
            begun: match planned {
                Planned::Run(ready) => ready.begun.clone(),
                Planned::Answer(..) | Planned::Told(..) | Planned::Ran(..) => None,
            },
        };
        Some(Saved {
            transcript: self.transcript.items.iter().map(SavedItem::of).collect(),
            remembered: self.transcript.remembered.clone(),
            tools: tools.save(),
            rounds: self.rounds.iter().map(SavedRound::of).collect(),
            running: SavedRound::of(round),
            done: done.iter().map(SavedTold::of).collect(),
            left: left.iter().map(call).collect(),
            fallback: self.fallback.clone(),
            called,
        })
    }

    /// Restores a saved dialogue. Its next event must be [`super::Event::Ran`] with the results of all calls of its
    /// round.
    #[must_use]
    pub fn resume(saved: Saved, contract: ReplyContract, schema: Arc<Schema>, available: Available) -> Resumed {
        let tools = TurnTools::resume(available, saved.tools);
        let plan = |saved: SavedCall| match (saved.ran, saved.told) {
            (Some(ran), _) => Planned::Ran(saved.call, ran.told()),
            (None, Some(text)) => Planned::Told(saved.call, text),
            (None, None) => match tools.plan_again(saved.call) {
                Planned::Run(ready) => Planned::Run(Box::new(Ready { begun: saved.begun, ..*ready })),
                planned => planned,
            },
        };
        let left = saved.left.into_iter().map(plan).collect();
        let done: Vec<ShownResult> = saved.done.into_iter().map(SavedTold::told).collect();
        // Records of earlier versions lack this number.
        let called = saved.called.max(done.len());
        let items = saved.transcript.into_iter().map(SavedItem::item).collect();
        let transcript = Transcript { items, remembered: saved.remembered };
        let mut dialogue = Self::new(transcript, contract, schema, Some(tools));
        dialogue.rounds = saved.rounds.into_iter().map(SavedRound::round).collect();
        dialogue.fallback = saved.fallback;
        dialogue.stage = Stage::Running(Box::new(saved.running.round()));
        Resumed { dialogue, done, left, called }
    }
}

impl SavedTold {
    fn of(told: &ShownResult) -> Self {
        Self { text: told.text.clone(), whole: told.whole.as_ref().map(ToString::to_string) }
    }

    fn told(self) -> ShownResult {
        ShownResult { text: self.text, whole: self.whole.map(Arc::from), pictures: 0 }
    }
}

impl SavedItem {
    fn of(item: &Item) -> Self {
        Self {
            role: item.role,
            content: item.text_for(Accepts::default()).into_owned(),
            raw: item.raw.clone(),
            calls: item.calls.clone(),
            result_of: item.result_of.clone(),
        }
    }

    fn item(self) -> Item {
        Item { raw: self.raw, calls: self.calls, result_of: self.result_of, ..Item::new(self.role, self.content) }
    }
}

impl SavedRound {
    fn of(round: &Round) -> Self {
        let Round { row, echo, calls, results } = round;
        Self { row: row.clone(), echo: SavedItem::of(echo), calls: calls.clone(), results: results.clone() }
    }

    fn round(self) -> Round {
        Round { row: self.row, echo: self.echo.item(), calls: self.calls, results: self.results }
    }
}
