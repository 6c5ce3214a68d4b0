//! Questions and notices about tool calls that require approval. One table per language.

mod questions;

use sha2::{Digest, Sha256};

pub use self::questions::{at_work, described, question_keys, yes_and_no};

use super::template::countdown;
use crate::code;
use crate::gate::{ApprovalDecision, Choice, ClickRefusal, Gate};
use crate::hex::hex;
use crate::locale::Locale;
use crate::outgoing::{Button, ButtonStyle, Part};

/// Longer arguments, in characters, are also shown as an excerpt.
const EXCERPT_ABOVE: usize = 1_800;
/// The number of characters shown from the beginning and the end of longer arguments.
const EXCERPT_EDGE: usize = 400;

/// All sentences in one language.
struct Words {
    /// The requester (a mention), the tool, its arguments, the end.
    asks: fn(&str, &str, &str, &str) -> String,
    /// The same for a requester who reads events: the tool, its arguments, the end.
    asks_you: fn(&str, &str, &str) -> String,
    /// The phrase for arguments: the arguments follow, or there are none.
    with: [&'static str; 2],
    /// For arguments in a file: their number of characters, their SHA-256.
    excerpt: fn(usize, &str) -> String,
    /// The deciders: one mention or several.
    decides: fn(&str) -> String,
    once: &'static str,
    hour: &'static str,
    deny: &'static str,
    keys: &'static str,
    approved: fn(&str) -> String,
    denied: fn(&str) -> String,
    somebody: &'static str,
    expired: &'static str,
    not_asked: &'static str,
    withdrawn: &'static str,
    withdrawn_for: &'static str,
    /// The answer to the decider, for each choice.
    taken: [&'static str; 3],
    unknown: &'static str,
    wrong_place: &'static str,
    not_yours: fn(&str) -> String,
    decided: &'static str,
    too_late: &'static str,
    not_recorded: &'static str,
}

const ENGLISH: Words = Words {
    asks: |who, tool, with, until| {
        format!("Approval required: I want to use the tool `{tool}` for {who}, {with}. The request expires {until}.")
    },
    asks_you: |tool, with, until| {
        format!("Approval required: I want to use the tool {tool}, {with}. The request expires {until}.")
    },
    with: ["with exactly these arguments", "without any arguments"],
    excerpt: |characters, hash| {
        format!(
            "These are the beginning and the end of the arguments. All {characters} characters follow; their SHA-256 is `{hash}`."
        )
    },
    decides: |who| format!("Only {who} can decide."),
    once: "Approve",
    hour: "Allow for an hour",
    deny: "Deny",
    keys: "[a]pprove, allow for an [h]our, [r]efuse: ",
    approved: |who| format!("Approved by {who}."),
    denied: |who| format!("Denied by {who}."),
    somebody: "the person who asked",
    expired: "The request expired without a decision, so the tool did not run.",
    not_asked: "The request for approval could not be posted, so the tool did not run.",
    withdrawn: "The request was withdrawn, so the tool did not run.",
    withdrawn_for: "Your question was waiting for an approval. It was withdrawn, and the tool did not run.",
    taken: [
        "Approved: it runs once, with exactly these arguments.",
        "Approved. For one hour, calls with exactly these arguments run here without asking. `/approvals` withdraws this.",
        "Denied: it does not run.",
    ],
    unknown: "There is nothing to decide here any more.",
    wrong_place: "Please decide this in the channel in which it was asked.",
    not_yours: |who| format!("Only {who} can decide this."),
    decided: "This was decided already.",
    too_late: "The request has expired and counts as denied.",
    not_recorded: "Your decision could not be saved; please press the button again in a moment.",
};

const SPANISH: Words = Words {
    asks: |who, tool, with, until| {
        format!(
            "Se requiere aprobación: quiero usar la herramienta `{tool}` para {who}, {with}. La solicitud caduca {until}."
        )
    },
    asks_you: |tool, with, until| {
        format!("Se requiere aprobación: quiero usar la herramienta {tool}, {with}. La solicitud caduca {until}.")
    },
    with: ["con exactamente estos argumentos", "sin ningún argumento"],
    excerpt: |characters, hash| {
        format!(
            "Esto es el principio y el final de los argumentos. A continuación van los {characters} caracteres; su SHA-256 es `{hash}`."
        )
    },
    decides: |who| format!("Solo {who} puede decidir."),
    once: "Aprobar",
    hour: "Permitir una hora",
    deny: "Denegar",
    keys: "[a] aprobar, [h] permitir una hora, [r] rechazar: ",
    approved: |who| format!("Aprobado por {who}."),
    denied: |who| format!("Denegado por {who}."),
    somebody: "quien lo pidió",
    expired: "La solicitud caducó sin decisión, así que la herramienta no se ejecutó.",
    not_asked: "No se pudo publicar la solicitud de aprobación, así que la herramienta no se ejecutó.",
    withdrawn: "La solicitud se retiró, así que la herramienta no se ejecutó.",
    withdrawn_for: "Tu pregunta esperaba una aprobación. Se retiró, y la herramienta no se ejecutó.",
    taken: [
        "Aprobado: se ejecuta una vez, con exactamente estos argumentos.",
        "Aprobado. Durante una hora, las llamadas con exactamente estos argumentos se ejecutan aquí sin preguntar. `/approvals` lo retira.",
        "Denegado: no se ejecuta.",
    ],
    unknown: "Aquí ya no hay nada que decidir.",
    wrong_place: "Decide esto en el canal donde se pidió, por favor.",
    not_yours: |who| format!("Solo {who} puede decidir esto."),
    decided: "Esto ya se decidió.",
    too_late: "La solicitud ha caducado y cuenta como denegada.",
    not_recorded: "No se pudo guardar tu decisión; pulsa otra vez dentro de un momento, por favor.",
};

const GERMAN: Words = Words {
    asks: |who, tool, with, until| {
        format!(
            "Zustimmung nötig: Ich möchte das Werkzeug `{tool}` für {who} nutzen, {with}. Die Anfrage läuft {until} ab."
        )
    },
    asks_you: |tool, with, until| {
        format!("Zustimmung nötig: Ich möchte das Werkzeug {tool} nutzen, {with}. Die Anfrage läuft {until} ab.")
    },
    with: ["mit genau diesen Argumenten", "ohne Argumente"],
    excerpt: |characters, hash| {
        format!("Das sind Anfang und Ende der Argumente. Alle {characters} Zeichen folgen; ihre SHA-256 ist `{hash}`.")
    },
    decides: |who| format!("Entscheiden kann nur {who}."),
    once: "Erlauben",
    hour: "Eine Stunde lang erlauben",
    deny: "Ablehnen",
    keys: "[a] erlauben, [h] eine Stunde lang erlauben, [r] ablehnen: ",
    approved: |who| format!("Erlaubt von {who}."),
    denied: |who| format!("Abgelehnt von {who}."),
    somebody: "wer gefragt hat",
    expired: "Die Anfrage lief ohne Entscheidung ab; das Werkzeug wurde nicht ausgeführt.",
    not_asked: "Die Anfrage konnte nicht gestellt werden; das Werkzeug wurde nicht ausgeführt.",
    withdrawn: "Die Anfrage wurde zurückgezogen; das Werkzeug wurde nicht ausgeführt.",
    withdrawn_for: "Deine Frage wartete auf Zustimmung. Sie wurde zurückgezogen, und das Werkzeug wurde nicht ausgeführt.",
    taken: [
        "Erlaubt: Es läuft einmal, mit genau diesen Argumenten.",
        "Erlaubt. Eine Stunde lang laufen Aufrufe mit genau diesen Argumenten hier ohne Frage. `/approvals` nimmt das zurück.",
        "Abgelehnt: Es läuft nicht.",
    ],
    unknown: "Hier gibt es nichts mehr zu entscheiden.",
    wrong_place: "Bitte entscheide das in dem Kanal, in dem gefragt wurde.",
    not_yours: |who| format!("Das kann nur {who} entscheiden."),
    decided: "Das ist schon entschieden.",
    too_late: "Die Anfrage ist abgelaufen und gilt als abgelehnt.",
    not_recorded: "Deine Entscheidung konnte nicht gespeichert werden; drück bitte gleich noch einmal.",
};

const fn words(locale: Locale) -> &'static Words {
    match locale {
        Locale::English => &ENGLISH,
        Locale::Spanish => &SPANISH,
        Locale::German => &GERMAN,
    }
}

/// Returns the deciders as mentions of members or roles.
fn deciders(gate: &Gate) -> String {
    if gate.approvers.is_empty() {
        return gate.asker();
    }
    gate.approvers.iter().map(|role| format!("<@&{role}>")).collect::<Vec<_>>().join(", ")
}

/// Returns the sentence that asks for a decision.
fn question(gate: &Gate) -> String {
    let words = words(gate.locale());
    let asks = (words.asks)(&gate.asker(), &gate.tool, with(gate), &countdown(gate.expires_at));
    format!("{asks} {}", (words.decides)(&deciders(gate)))
}

/// Returns the same for a requester who reads events; the arguments follow it.
#[must_use]
pub fn question_in_words(gate: &Gate) -> String {
    if let Some(question) = questions::in_words(gate) {
        return question;
    }
    (words(gate.locale()).asks_you)(&gate.tool, with(gate), &countdown(gate.expires_at))
}

fn with(gate: &Gate) -> &'static str {
    let [arguments, none] = words(gate.locale()).with;
    if is_bare(&gate.arguments) { none } else { arguments }
}

/// True if these arguments of a call are empty, so that they are not shown.
#[must_use]
pub fn is_bare(arguments: &str) -> bool {
    arguments.split_whitespace().collect::<String>() == "{}"
}

/// Returns the arguments as a code block that they cannot end. `None` if there are none.
fn arguments(gate: &Gate) -> Option<Part> {
    let text = gate.arguments.clone();
    (!is_bare(&gate.arguments)).then(|| Part::Code { language: "json".to_owned(), stem: "arguments".to_owned(), text })
}

/// Returns the beginning and the end of arguments that most platforms show as a file, with the length and hash of
/// that file.
fn excerpt(gate: &Gate) -> Option<Part> {
    let text = &gate.arguments;
    let characters = text.chars().count();
    if characters <= EXCERPT_ABOVE {
        return None;
    }
    let at = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at);
    let (beginning, end) = (&text[..at(EXCERPT_EDGE)], &text[at(characters - EXCERPT_EDGE)..]);
    let about = (words(gate.locale()).excerpt)(characters, &hex(&Sha256::digest(text.as_bytes())));
    Some(Part::Text { text: format!("{}\n{}\n{about}", code::fence("", beginning), code::fence("", end)) })
}

/// Returns the message that asks for a decision.
#[must_use]
pub fn asking(gate: &Gate) -> Vec<Part> {
    if let Some(parts) = questions::asking(gate) {
        return parts;
    }
    let words = words(gate.locale());
    let button = |choice: Choice| {
        let (label, style) = match choice {
            Choice::Once => (words.once, ButtonStyle::Good),
            Choice::Hour => (words.hour, ButtonStyle::Plain),
            Choice::Deny | Choice::Open => (words.deny, ButtonStyle::Bad),
        };
        Button { name: choice.button(&gate.id), label: label.to_owned(), style }
    };
    let buttons = [Choice::Once, Choice::Hour, Choice::Deny].map(button).to_vec();
    let question = Some(Part::Text { text: question(gate) });
    let parts = [question, excerpt(gate), arguments(gate), Some(Part::Buttons { buttons })];
    parts.into_iter().flatten().collect()
}

/// Returns the same message after the decision: with the decider, without buttons.
#[must_use]
pub fn decided(gate: &Gate, decision: &ApprovalDecision) -> Vec<Part> {
    let words = words(gate.locale());
    let by = decision.by().map_or_else(|| words.somebody.to_owned(), |person| format!("<@{}>", person.id));
    if let Some(outcome) = questions::decided(gate, decision, &by) {
        return vec![Part::Text { text: format!("`{}`: {outcome}", gate.tool) }];
    }
    let outcome = match decision {
        ApprovalDecision::Approved { .. } | ApprovalDecision::Answered { .. } | ApprovalDecision::Finished => {
            (words.approved)(&by)
        }
        ApprovalDecision::Denied { .. } => (words.denied)(&by),
        ApprovalDecision::Expired => words.expired.to_owned(),
        ApprovalDecision::NotAsked => words.not_asked.to_owned(),
        ApprovalDecision::Withdrawn => words.withdrawn.to_owned(),
    };
    let text = format!("`{}`: {outcome}", gate.tool);
    // After `/forget`, the arguments are no longer shown.
    match decision {
        ApprovalDecision::Withdrawn => vec![Part::Text { text }],
        _ => [Some(Part::Text { text }), arguments(gate)].into_iter().flatten().collect(),
    }
}

/// Returns the answer to the decider.
#[must_use]
pub const fn taken(gate: &Gate, choice: Choice, locale: Locale) -> &'static str {
    if let Some(taken) = questions::taken(gate, choice, locale) {
        return taken;
    }
    let [once, hour, deny] = words(locale).taken;
    match choice {
        Choice::Once => once,
        Choice::Hour => hour,
        Choice::Deny | Choice::Open => deny,
    }
}

/// Returns the answer to a click without effect. `gate`: the gate that it named, if it exists.
#[must_use]
pub fn refused(why: ClickRefusal, gate: Option<&Gate>, locale: Locale) -> String {
    let words = words(locale);
    match (why, gate) {
        (ClickRefusal::NotTheirs, Some(gate)) => (words.not_yours)(&deciders(gate)),
        (ClickRefusal::Unknown | ClickRefusal::NotTheirs, _) => words.unknown.to_owned(),
        (ClickRefusal::WrongPlace, _) => words.wrong_place.to_owned(),
        (ClickRefusal::Decided, _) => words.decided.to_owned(),
        (ClickRefusal::Expired, _) => words.too_late.to_owned(),
        (ClickRefusal::NotRecorded, _) => words.not_recorded.to_owned(),
        (ClickRefusal::Misfit(misfit), _) => questions::misfit(gate, misfit, locale),
    }
}

/// Returns the key bindings for a decision in the terminal.
#[must_use]
pub const fn keys(locale: Locale) -> &'static str {
    words(locale).keys
}

/// Returns the answer to a turn that waited when its member ran `/forget`.
#[must_use]
pub const fn dropped(locale: Locale) -> &'static str {
    words(locale).withdrawn_for
}
