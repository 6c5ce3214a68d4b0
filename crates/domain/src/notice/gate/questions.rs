//! Questions and tasks of tool servers. One table per language. Texts of a server are shown in a code block, where
//! nothing in them is a link, a mention or markup.

use super::super::template::countdown;
use crate::code;
use crate::gate::{ApprovalDecision, Choice, Gate, Subject};
use crate::locale::Locale;
use crate::outgoing::{Button, ButtonStyle, Part};
use crate::question::{Field, FieldKind, Form, Link, Misfit, Problem};

/// The longest host on the label of a button, in Unicode scalar values.
const HOST_CHARS: usize = 60;

/// All sentences in one language.
struct Words {
    /// The member (a mention), the tool, its server, the end.
    form: fn(&str, &str, &str, &str) -> String,
    /// The same for a page at this host.
    link: fn(&str, &str, &str, &str, &str) -> String,
    /// The same for a task.
    task: fn(&str, &str, &str, &str) -> String,
    you: &'static str,
    answer: &'static str,
    open: fn(&str) -> String,
    go_on: &'static str,
    decline: &'static str,
    stop: &'static str,
    answered: fn(&str) -> String,
    declined: fn(&str) -> String,
    stopped: fn(&str) -> String,
    finished: &'static str,
    expired: &'static str,
    given_up: &'static str,
    not_asked: &'static str,
    too_many: &'static str,
    withdrawn: &'static str,
    /// The answers to a click: sent, declined, stopped.
    taken: [&'static str; 3],
    required: &'static str,
    flag: &'static str,
    yes_and_no: [&'static str; 2],
    /// The key bindings in the terminal.
    keys: &'static str,
    /// The field, and the reason why its value does not fit.
    misfit: fn(&str, Problem) -> String,
}

const ENGLISH: Words = Words {
    form: |who, tool, server, until| {
        format!(
            "The tool `{tool}` of the server `{server}` asks {who} for details. The request expires {until}. Never enter passwords or keys here."
        )
    },
    link: |who, tool, server, host, until| {
        format!(
            "The tool `{tool}` of the server `{server}` asks {who} to open a page at `{host}`. Open it only if you trust this host, then continue. The request expires {until}."
        )
    },
    task: |who, tool, server, until| {
        format!(
            "The server `{server}` is working on `{tool}` for {who}. I answer when it is done. I stop waiting {until}."
        )
    },
    you: "you",
    answer: "Answer",
    open: |host| format!("Open {host}"),
    go_on: "Continue",
    decline: "Decline",
    stop: "Stop",
    answered: |who| format!("Answered by {who}."),
    declined: |who| format!("Declined by {who}."),
    stopped: |who| format!("Stopped by {who}."),
    finished: "The server has finished this step.",
    expired: "The request expired without an answer.",
    given_up: "The server did not finish in time.",
    not_asked: "The question could not be posted.",
    too_many: "Too many tasks are running, so this one was stopped.",
    withdrawn: "The request was withdrawn.",
    taken: ["Sent to the server.", "Declined.", "The task is being stopped."],
    required: "required",
    flag: "yes or no",
    yes_and_no: ["Yes", "No"],
    keys: "[a]nswer, [r]efuse: ",
    misfit: |field, problem| {
        let why = match problem {
            Problem::Missing => "a value is required",
            Problem::Length => "the text is too short or too long",
            Problem::Number => "a number is required",
            Problem::Range => "the number is out of range",
            Problem::Flag => "answer yes or no",
            Problem::Option => "choose one of the options",
            Problem::Format => "the format is wrong",
        };
        format!("Please answer again: {field}: {why}.")
    },
};

const SPANISH: Words = Words {
    form: |who, tool, server, until| {
        format!(
            "La herramienta `{tool}` del servidor `{server}` necesita datos de {who}. La solicitud caduca {until}. No escribas aquí contraseñas ni claves."
        )
    },
    link: |who, tool, server, host, until| {
        format!(
            "La herramienta `{tool}` del servidor `{server}` tiene una página para {who} en `{host}`. Ábrela solo si confías en ese servidor y luego continúa. La solicitud caduca {until}."
        )
    },
    task: |who, tool, server, until| {
        format!(
            "El servidor `{server}` trabaja en `{tool}` para {who}. Responderé cuando termine. Dejo de esperar {until}."
        )
    },
    you: "ti",
    answer: "Responder",
    open: |host| format!("Abrir {host}"),
    go_on: "Continuar",
    decline: "Rechazar",
    stop: "Detener",
    answered: |who| format!("Respondido por {who}."),
    declined: |who| format!("Rechazado por {who}."),
    stopped: |who| format!("Detenido por {who}."),
    finished: "El servidor terminó este paso.",
    expired: "La solicitud caducó sin respuesta.",
    given_up: "El servidor no terminó a tiempo.",
    not_asked: "No se pudo publicar la pregunta.",
    too_many: "Hay demasiadas tareas en marcha, así que esta se detuvo.",
    withdrawn: "La solicitud se retiró.",
    taken: ["Enviado al servidor.", "Rechazado.", "La tarea se está deteniendo."],
    required: "obligatorio",
    flag: "sí o no",
    yes_and_no: ["Sí", "No"],
    keys: "[a] responder, [r] rechazar: ",
    misfit: |field, problem| {
        let why = match problem {
            Problem::Missing => "hace falta un valor",
            Problem::Length => "el texto es demasiado corto o largo",
            Problem::Number => "hace falta un número",
            Problem::Range => "el número está fuera del rango",
            Problem::Flag => "responde sí o no",
            Problem::Option => "elige una de las opciones",
            Problem::Format => "el formato no es correcto",
        };
        format!("Responde otra vez, por favor: {field}: {why}.")
    },
};

const GERMAN: Words = Words {
    form: |who, tool, server, until| {
        format!(
            "Das Werkzeug `{tool}` des Servers `{server}` bittet {who} um Angaben. Die Anfrage läuft {until} ab. Gib hier keine Passwörter oder Schlüssel ein."
        )
    },
    link: |who, tool, server, host, until| {
        format!(
            "Das Werkzeug `{tool}` des Servers `{server}` bittet {who}, eine Seite bei `{host}` zu öffnen. Öffne sie nur, wenn du diesem Host vertraust, und fahre dann fort. Die Anfrage läuft {until} ab."
        )
    },
    task: |who, tool, server, until| {
        format!(
            "Der Server `{server}` arbeitet an `{tool}` für {who}. Ich antworte, wenn er fertig ist. Ich warte nicht länger als {until}."
        )
    },
    you: "dich",
    answer: "Antworten",
    open: |host| format!("{host} öffnen"),
    go_on: "Weiter",
    decline: "Ablehnen",
    stop: "Abbrechen",
    answered: |who| format!("Beantwortet von {who}."),
    declined: |who| format!("Abgelehnt von {who}."),
    stopped: |who| format!("Abgebrochen von {who}."),
    finished: "Der Server hat diesen Schritt beendet.",
    expired: "Die Anfrage lief ohne Antwort ab.",
    given_up: "Der Server wurde nicht rechtzeitig fertig.",
    not_asked: "Die Frage konnte nicht gestellt werden.",
    too_many: "Es laufen zu viele Aufgaben, deshalb wurde diese abgebrochen.",
    withdrawn: "Die Anfrage wurde zurückgezogen.",
    taken: ["An den Server gesendet.", "Abgelehnt.", "Die Aufgabe wird abgebrochen."],
    required: "nötig",
    flag: "ja oder nein",
    yes_and_no: ["Ja", "Nein"],
    keys: "[a] antworten, [r] ablehnen: ",
    misfit: |field, problem| {
        let why = match problem {
            Problem::Missing => "ein Wert ist nötig",
            Problem::Length => "der Text ist zu kurz oder zu lang",
            Problem::Number => "eine Zahl ist nötig",
            Problem::Range => "die Zahl liegt außerhalb des Bereichs",
            Problem::Flag => "antworte mit ja oder nein",
            Problem::Option => "wähle eine der Möglichkeiten",
            Problem::Format => "das Format stimmt nicht",
        };
        format!("Bitte antworte noch einmal: {field}: {why}.")
    },
};

const fn words(locale: Locale) -> &'static Words {
    match locale {
        Locale::English => &ENGLISH,
        Locale::Spanish => &SPANISH,
        Locale::German => &GERMAN,
    }
}

/// Returns the sentence about the subject of a gate for this reader; `None` for an approval.
fn sentence(gate: &Gate, who: &str) -> Option<String> {
    let (words, until) = (words(gate.locale()), countdown(gate.expires_at));
    let tool = &gate.tool;
    match &gate.subject {
        Subject::Approval => None,
        Subject::Form { server, .. } => Some((words.form)(who, tool, server, &until)),
        Subject::Link { server, link, .. } => Some((words.link)(who, tool, server, &link.host, &until)),
        Subject::Task(task) => Some((words.task)(who, tool, &task.server, &until)),
    }
}

/// Returns the server's reason for a question.
fn reason(gate: &Gate) -> Option<&str> {
    let (Subject::Form { message, .. } | Subject::Link { message, .. }) = &gate.subject else { return None };
    Some(message.as_str()).filter(|message| !message.trim().is_empty())
}

/// Returns the message about a question or a task; `None` for an approval.
pub(super) fn asking(gate: &Gate) -> Option<Vec<Part>> {
    let said = reason(gate).map(|message| code::fence("", message));
    let fields = match &gate.subject {
        Subject::Form { form, .. } => Some(code::fence("", &fields(form, gate.locale()))),
        Subject::Link { link, .. } => Some(code::fence("", &link.url)),
        Subject::Approval | Subject::Task(_) => None,
    };
    let lines = [Some(sentence(gate, &gate.asker())?), said, fields];
    let text = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
    Some(vec![Part::Text { text }, Part::Buttons { buttons: buttons(gate) }])
}

/// Returns the message of a task with its status in the server's words.
#[must_use]
pub fn at_work(gate: &Gate, status: &str) -> Vec<Part> {
    let mut parts = asking(gate).unwrap_or_default();
    if let Some(Part::Text { text }) = parts.first_mut() {
        text.push('\n');
        text.push_str(&code::fence("", status));
    }
    parts
}

/// Returns the question for a requester who reads events; `None` for an approval.
pub(super) fn in_words(gate: &Gate) -> Option<String> {
    let said = reason(gate).map(|message| format!("\n{message}"));
    Some(format!("{}{}", sentence(gate, words(gate.locale()).you)?, said.unwrap_or_default()))
}

fn buttons(gate: &Gate) -> Vec<Button> {
    let words = words(gate.locale());
    let button =
        |choice: Choice, label: &str, style| Button { name: choice.button(&gate.id), label: label.to_owned(), style };
    match &gate.subject {
        Subject::Approval => Vec::new(),
        Subject::Form { .. } => vec![
            button(Choice::Open, words.answer, ButtonStyle::Good),
            button(Choice::Deny, words.decline, ButtonStyle::Bad),
        ],
        Subject::Link { link: Link { url, host }, .. } => {
            // The end of a host says whose it is.
            let hidden = host.chars().count().saturating_sub(HOST_CHARS);
            let shown: String = host.chars().skip(hidden).collect();
            let host = if hidden == 0 { shown } else { format!("…{shown}") };
            vec![
                Button { name: url.clone(), label: (words.open)(&host), style: ButtonStyle::Link },
                button(Choice::Once, words.go_on, ButtonStyle::Good),
                button(Choice::Deny, words.decline, ButtonStyle::Bad),
            ]
        }
        Subject::Task(_) => vec![button(Choice::Deny, words.stop, ButtonStyle::Bad)],
    }
}

fn fields(form: &Form, locale: Locale) -> String {
    form.fields.iter().map(|field| described(field, locale)).collect::<Vec<_>>().join("\n")
}

/// Returns a field with its hint and its options, on one line.
#[must_use]
pub fn described(field: &Field, locale: Locale) -> String {
    let words = words(locale);
    let kind = match &field.kind {
        FieldKind::Choice { options } => {
            Some(options.iter().map(|option| option.title.as_str()).collect::<Vec<_>>().join(" | "))
        }
        FieldKind::Flag => Some(words.flag.to_owned()),
        FieldKind::Text { .. } | FieldKind::Number { .. } => None,
    };
    let required = field.required.then(|| words.required.to_owned());
    let notes: Vec<String> = [required, field.hint.clone(), kind].into_iter().flatten().collect();
    let default = field.default.as_ref().map(|default| format!(" [{default}]"));
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    format!("{}{notes}{}", field.label, default.unwrap_or_default())
}

/// Returns the outcome of a question or a task; `None` for an approval.
pub(super) fn decided(gate: &Gate, decision: &ApprovalDecision, by: &str) -> Option<String> {
    let words = words(gate.locale());
    let is_task = gate.subject.task().is_some();
    let outcome = match (decision, is_task) {
        _ if gate.subject.is_approval() => return None,
        (ApprovalDecision::Approved { .. } | ApprovalDecision::Answered { .. }, _) => (words.answered)(by),
        (ApprovalDecision::Denied { .. }, false) => (words.declined)(by),
        (ApprovalDecision::Denied { .. }, true) => (words.stopped)(by),
        (ApprovalDecision::Finished, _) => words.finished.to_owned(),
        (ApprovalDecision::Expired, false) => words.expired.to_owned(),
        (ApprovalDecision::Expired, true) => words.given_up.to_owned(),
        (ApprovalDecision::NotAsked, false) => words.not_asked.to_owned(),
        (ApprovalDecision::NotAsked, true) => words.too_many.to_owned(),
        (ApprovalDecision::Withdrawn, _) => words.withdrawn.to_owned(),
    };
    Some(outcome)
}

/// Returns the answer to a click on a question or a task; `None` for an approval.
pub(super) const fn taken(gate: &Gate, choice: Choice, locale: Locale) -> Option<&'static str> {
    let [sent, declined, stopped] = words(locale).taken;
    match (&gate.subject, choice) {
        (Subject::Approval, _) => None,
        (Subject::Task(_), _) => Some(stopped),
        (_, Choice::Deny) => Some(declined),
        (_, Choice::Once | Choice::Hour | Choice::Open) => Some(sent),
    }
}

/// Returns the answer to values that do not fit.
pub(super) fn misfit(gate: Option<&Gate>, misfit: Misfit, locale: Locale) -> String {
    let form = gate.and_then(|gate| match &gate.subject {
        Subject::Form { form, .. } => form.fields.get(misfit.field),
        Subject::Approval | Subject::Link { .. } | Subject::Task(_) => None,
    });
    let label = form.map_or("?", |field| field.label.as_str()).replace('`', "'");
    (words(locale).misfit)(&format!("`{label}`"), misfit.problem)
}

/// Returns the words for a flag.
#[must_use]
pub const fn yes_and_no(locale: Locale) -> [&'static str; 2] {
    words(locale).yes_and_no
}

/// Returns the key bindings for a question in the terminal.
#[must_use]
pub const fn question_keys(locale: Locale) -> &'static str {
    words(locale).keys
}
