//! Calls that a server has begun and not finished: it requires answers of the member, or works on a task. Such a call
//! advances in steps; between them it can be stored, and a later process continues it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CallError, CallErrorKind, ToolResult};
use crate::gate::{ApprovalDecision, Subject, TaskWait};
use crate::ids::{Timestamp, millis};
use crate::question::{Answer, Ask, Question};

/// The most times that a server may require answers during one call.
pub const ROUNDS_MAX: u32 = 10;
/// The most questions of a server at once; further ones are declined.
pub const QUESTIONS_MAX: usize = 5;
/// The longest state that a server leaves with the client, in bytes.
pub const STATE_BYTES: usize = 32 * 1024;
/// The longest id of a task, in bytes.
pub const TASK_ID_BYTES: usize = 256;
/// The shortest and the longest pause between two polls of a task.
pub const POLL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// The pause between two polls of a task whose server names none.
const POLL_USUAL: Duration = Duration::from_secs(2);

/// The reply of a server to one step of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallReply {
    /// The result. The call is finished.
    Result(ToolResult),
    /// The server requires answers before it continues.
    Asks(InputRequired),
    /// The server works on the call as a task.
    Task(TaskReport),
}

impl CallReply {
    /// Returns the result of a call that is made in one step.
    ///
    /// # Errors
    /// The server has not finished the call.
    pub fn into_result(self) -> Result<ToolResult, CallError> {
        let why = match self {
            Self::Result(result) => return Ok(result),
            Self::Asks(_) => "the tool asks for more input, which is not offered here",
            Self::Task(_) => "the tool works on a task, which is not awaited here",
        };
        Err(CallError::new(CallErrorKind::Failed, why))
    }
}

/// The questions of a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputRequired {
    /// The questions for the member, at most [`QUESTIONS_MAX`].
    pub questions: Vec<Question>,
    /// The answers to other questions, which are declined without asking a person.
    pub answers: Map<String, Value>,
    /// The state of the server, returned unchanged with the answers.
    pub state: Option<String>,
}

impl InputRequired {
    /// Returns the keys of all questions, also of those that are declined without asking a person.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.questions.iter().map(|question| &question.key).chain(self.answers.keys())
    }
}

/// The state of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// The server's id of the task.
    pub id: String,
    /// The status in the server's words.
    pub status: Option<String>,
    /// The requested pause before the next poll.
    pub poll_after: Option<Duration>,
    /// The time for which the server keeps the task; `None` without a limit.
    pub life: Option<Duration>,
    /// The questions that the task waits for.
    pub input: Option<InputRequired>,
}

impl TaskReport {
    /// Returns the report of a server that acknowledged this step.
    #[must_use]
    pub fn acknowledged(step: &Step) -> Self {
        let id = match step {
            Step::Poll(task) | Step::Answer { task, .. } | Step::Cancel(task) => task.clone(),
            Step::First | Step::Again { .. } => String::new(),
        };
        Self { id, status: None, poll_after: Some(Duration::ZERO), life: None, input: None }
    }
}

/// One step of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Step {
    /// The call itself.
    #[default]
    First,
    /// The call again, with the answers that the server requires and its state.
    Again {
        /// The answers by the keys of their questions.
        answers: Map<String, Value>,
        /// The state of the server.
        state: Option<String>,
    },
    /// A poll of this task. It may be repeated.
    Poll(String),
    /// Answers to the questions of a task. The server ignores answers that it has, so this may be repeated.
    Answer {
        /// The task.
        task: String,
        /// The answers by the keys of their questions.
        answers: Map<String, Value>,
    },
    /// The cancellation of this task. It may be repeated.
    Cancel(String),
}

impl Step {
    /// True if the step may be repeated without a second effect.
    #[must_use]
    pub const fn repeatable(&self) -> bool {
        match self {
            Self::First | Self::Again { .. } => false,
            Self::Poll(_) | Self::Answer { .. } | Self::Cancel(_) => true,
        }
    }
}

/// A call between two steps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Begun {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Task>,
    /// The questions without an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    questions: Vec<Question>,
    /// The answers that the server does not have yet.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    answers: Map<String, Value>,
    /// The keys of earlier questions of the task, which are not asked again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answered: Vec<String>,
    rounds: u32,
    /// The number of the call in its turn; 0 in records of earlier versions.
    #[serde(default, skip_serializing_if = "is_unnumbered")]
    number: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_unnumbered(number: &usize) -> bool {
    *number == 0
}

/// A task at a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The server's id of the task.
    pub id: String,
    /// The pause before the next poll, in milliseconds.
    pub poll_ms: u64,
    /// The time at which the task is given up.
    pub until: Timestamp,
}

/// The need of a call between two steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Need<'a> {
    /// The answer to this question.
    Answer(&'a Question),
    /// Time, until this task has news.
    Time(&'a Task),
    /// Nothing: the next step is made at once.
    Nothing,
}

/// The progress of a call after a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// The result.
    Done(ToolResult),
    /// Further steps are needed.
    Waits(Box<Begun>),
}

impl Begun {
    /// Applies the reply to a step. `longest` bounds the time that a task may take from now on.
    ///
    /// # Errors
    /// The server requires answers too often.
    pub fn after(
        before: Option<Self>,
        reply: CallReply,
        now: Timestamp,
        longest: Duration,
    ) -> Result<Progress, CallError> {
        let mut begun = before.unwrap_or_default();
        let input = match reply {
            CallReply::Result(result) => return Ok(Progress::Done(result)),
            CallReply::Asks(input) => {
                begun.answers.clear();
                begun.state.clone_from(&input.state);
                Some(input)
            }
            CallReply::Task(report) => {
                let sent = std::mem::take(&mut begun.answers);
                // A task may ask under the keys of the call that created it.
                if begun.task.is_some() {
                    begun.answered.extend(sent.into_iter().map(|(key, _)| key));
                }
                let life = report.life.unwrap_or(longest).min(longest);
                let until = begun.task.map_or_else(|| Timestamp(now.0.saturating_add(millis(life))), |task| task.until);
                let pause = report.poll_after.unwrap_or(POLL_USUAL).clamp(POLL.0, POLL.1);
                begun.task = Some(Task { id: report.id, poll_ms: millis(pause), until });
                begun.state = None;
                report.input
            }
        };
        let Some(InputRequired { questions, answers, .. }) = input else { return Ok(Progress::Waits(Box::new(begun))) };
        let new = |key: &String| !begun.answered.contains(key);
        let questions: Vec<Question> = questions.into_iter().filter(|question| new(&question.key)).collect();
        let answers: Map<String, Value> = answers.into_iter().filter(|(key, _)| new(key)).collect();
        // A task lists its questions until it has processed the answers.
        if begun.task.is_none() || !questions.is_empty() || !answers.is_empty() {
            begun.rounds += 1;
        }
        if begun.rounds > ROUNDS_MAX {
            let message = format!("the tool asked more than {ROUNDS_MAX} times");
            return Err(CallError::new(CallErrorKind::Failed, message));
        }
        (begun.questions, begun.answers) = (questions, answers);
        Ok(Progress::Waits(Box::new(begun)))
    }

    /// Counts a continuation of the turn that brought its task no further: together with the questions, at most
    /// [`ROUNDS_MAX`].
    ///
    /// # Errors
    /// It is one too many.
    pub fn without_news(mut self) -> Result<Self, CallError> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            let message = format!("the server reported news {ROUNDS_MAX} times without a result or a new question");
            return Err(CallError::new(CallErrorKind::Failed, message));
        }
        Ok(self)
    }

    /// Returns the same state for the call of this number in its turn.
    #[must_use]
    pub fn numbered(self, number: usize) -> Self {
        Self { number, ..self }
    }

    /// Returns the number of the call in its turn; `None` if it is not known.
    #[must_use]
    pub fn number(&self) -> Option<usize> {
        (self.number > 0).then_some(self.number)
    }

    /// Returns the present need.
    #[must_use]
    pub fn need(&self) -> Need<'_> {
        match (self.questions.first(), &self.task) {
            (Some(question), _) => Need::Answer(question),
            (None, Some(task)) => Need::Time(task),
            (None, None) => Need::Nothing,
        }
    }

    /// True if there are answers that the server does not have, and no further questions.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.questions.is_empty() && !self.answers.is_empty()
    }

    /// Returns the next step.
    #[must_use]
    pub fn step(&self) -> Step {
        match &self.task {
            Some(task) if self.answers.is_empty() => Step::Poll(task.id.clone()),
            Some(task) => Step::Answer { task: task.id.clone(), answers: self.answers.clone() },
            None => Step::Again { answers: self.answers.clone(), state: self.state.clone() },
        }
    }

    /// Returns the step that ends the call at its server; `None` if nothing runs there.
    #[must_use]
    pub fn cancel(&self) -> Option<Step> {
        self.task.as_ref().map(|task| Step::Cancel(task.id.clone()))
    }

    /// Answers the first question by a decision.
    pub fn decide(&mut self, decision: Option<&ApprovalDecision>) {
        let answer = match decision {
            Some(ApprovalDecision::Answered { content, .. }) => Answer::Accept(Some(content.clone())),
            Some(ApprovalDecision::Approved { .. }) => Answer::Accept(None),
            Some(ApprovalDecision::Expired) => Answer::Cancel,
            Some(
                ApprovalDecision::Denied { .. }
                | ApprovalDecision::NotAsked
                | ApprovalDecision::Withdrawn
                | ApprovalDecision::Finished,
            )
            | None => Answer::Decline,
        };
        self.answer(&answer);
    }

    /// Declines all questions.
    pub fn decline(&mut self) {
        while !self.questions.is_empty() {
            self.answer(&Answer::Decline);
        }
    }

    fn answer(&mut self, answer: &Answer) {
        if !self.questions.is_empty() {
            let question = self.questions.remove(0);
            self.answers.insert(question.key, answer.to_value());
        }
    }

    /// Returns the subject of the gate that a parked call needs; `None` if it needs none.
    #[must_use]
    pub fn subject(&self, server: &str) -> Option<Subject> {
        let server = server.to_owned();
        let task = self.task.as_ref().map(|task| task.id.clone());
        match self.need() {
            Need::Answer(Question { message, ask: Ask::Form(form), .. }) => {
                Some(Subject::Form { server, message: message.clone(), form: form.clone(), task })
            }
            Need::Answer(Question { message, ask: Ask::Link(link), .. }) => {
                Some(Subject::Link { server, message: message.clone(), link: link.clone(), task })
            }
            Need::Time(Task { id, poll_ms, .. }) => Some(Subject::Task(TaskWait {
                server,
                id: id.clone(),
                poll_ms: *poll_ms,
                answered: self.answered.clone(),
            })),
            Need::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests;
