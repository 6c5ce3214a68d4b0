//! Texts on the surfaces of a workspace: the status of a thread, suggested prompts, and the dialogue that asks about a
//! message. Texts that all readers of a thread see, and those shown before the member's language is known, are English.

use crate::locale::Locale;

/// The status of a thread while the bot works. The platform shows it behind the name of the bot.
pub const WORKING: &str = "is thinking...";

/// The prompts that the bot suggests in a new conversation: title and message.
pub const SUGGESTED_PROMPTS: [(&str, &str); 3] = [
    ("What can you do?", "What can you help me with?"),
    ("Which tools do you have?", "Which tools can you use, and for what?"),
    ("Which data of mine do you store?", "Which of my data do you store, and how do I delete it?"),
];

/// The title of the dialogue that asks about a message.
pub const ASK_TITLE: &str = "Ask about this message";

/// The button that sends the dialogue.
pub const ASK_SUBMIT: &str = "Ask";

/// The button that closes the dialogue.
pub const ASK_CLOSE: &str = "Cancel";

/// The label of the question in the dialogue.
pub const ASK_QUESTION: &str = "Your question";

/// Formats a question that the bot posts for a member, so that all readers of the thread see it.
#[must_use]
pub fn asked(name: &str, question: &str) -> String {
    format!("**@{name} asks:** {question}")
}

/// Says in the dialogue that the bot may not post in this conversation.
#[must_use]
pub const fn not_invited(locale: Locale) -> &'static str {
    match locale {
        Locale::English => "I cannot post here. Please invite me to this conversation, then ask again.",
        Locale::Spanish => "No puedo escribir aquí. Invítame a esta conversación y vuelve a preguntar.",
        Locale::German => "Ich kann hier nicht schreiben. Lade mich in diese Unterhaltung ein und frag dann wieder.",
    }
}

/// Says in the dialogue that the question could not be posted.
#[must_use]
pub const fn not_asked(locale: Locale) -> &'static str {
    match locale {
        Locale::English => "Your question could not be posted. Please try again in a minute.",
        Locale::Spanish => "No se pudo publicar tu pregunta. Inténtalo de nuevo en un minuto.",
        Locale::German => "Deine Frage konnte nicht gesendet werden. Bitte versuche es in einer Minute noch einmal.",
    }
}
