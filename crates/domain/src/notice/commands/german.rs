//! The answers to commands in German.

use super::many;
use super::words::Words;
use crate::command::CommandKind;
use crate::limits::account::Scope;
use crate::people::LinkRefusal;
use crate::voice_channel::{VoiceNotice, VoiceReply};

pub(super) const WORDS: Words = Words {
    describe: |kind| match kind {
        CommandKind::Help => "Was ich tue, wie du mit mir sprichst und welche Befehle du ausführen darfst",
        CommandKind::New => "Unser Gespräch hier neu beginnen",
        CommandKind::Model => "Sehen oder wählen, welches Modell dir antwortet",
        CommandKind::Settings => "Sehen oder ändern, wie ich dir antworte: Länge, Sprache, Werkzeuge und mehr",
        CommandKind::Usage => "Dein Verbrauch und was von deinen Limits übrig ist",
        CommandKind::Forget => "Alles löschen, was ich über dich aufbewahre",
        CommandKind::Export => "Alles, was ich über dich aufbewahre, als Datei",
        CommandKind::Remember => "Mir etwas sagen, das ich mir hier merken soll",
        CommandKind::Memories => "Zeigen, was ich mir für dich merke, oder etwas davon löschen",
        CommandKind::Link => "Konten zweier Plattformen verbinden: gleiche Limits und Einstellungen",
        CommandKind::Unlink => "Dieses Konto von deinen anderen Konten trennen",
        CommandKind::Join => "In deinen Sprachkanal kommen und dort meine Antworten sprechen",
        CommandKind::Leave => "Den Sprachkanal verlassen",
        CommandKind::Listen => "Dir im Sprachkanal zuhören: on, off",
        CommandKind::Tools => "Die Werkzeuge, die ich benutzen kann",
        CommandKind::Status => "Mein Zustand: Teile, Modelle, Warteschlangen, Limits",
        CommandKind::Approvals => "Werkzeugaufrufe, die auf Zustimmung warten oder eine Zeit lang erlaubt sind",
        CommandKind::RefreshTools => "Die Listen aller Werkzeuge neu lesen",
        CommandKind::RefreshStatus => "Prompts und Einstellungen neu lesen, eine Statuszeile schreiben",
    },
    row: "Das Modell, das dir ab jetzt antwortet; default nimmt deine Wahl zurück",
    user: "Ein anderes Mitglied; nur für Betreiber",
    withdraw: "Die Kennung eines erlaubten Aufrufs, der ab jetzt wieder Zustimmung braucht",
    fact: "Was ich vergessen soll",
    category: "Die Kategorie, deren Werkzeuge gezeigt werden, etwa search",
    remember: "Was ich mir merken soll, in einem kurzen Satz",
    link: "Der Code, den ich dir auf der anderen Plattform gezeigt habe; ohne Angabe bekommst du einen",
    digit: |c| match c {
        ',' => '.',
        '.' => ',',
        c => c,
    },

    operators_only: |name| format!("`/{name}` ist nur für die Betreiber dieses Bots."),
    usage_of_others: "Nur Betreiber sehen den Verbrauch anderer Mitglieder. Mit `/usage` ohne Namen siehst du deinen eigenen Verbrauch.",
    unknown: "Diesen Befehl kenne ich nicht. Vielleicht ist deine Liste der Befehle veraltet; `/help` nennt alle.",
    broken: "Entschuldige, bei mir ist etwas schiefgegangen, und ich weiß nicht, wie weit ich kam. Bitte versuch es noch einmal.",
    too_slow: "Entschuldige, das hat zu lange gedauert, und ich habe vor dem Ende aufgehört. Bitte versuch es in einer Minute noch einmal.",
    forgetting_goes_on: "Ich habe festgehalten, dass alle deine Daten gelöscht werden. Das dauert länger als sonst und geht von selbst weiter; du musst `/forget` nicht noch einmal ausführen.",
    busy: "Entschuldige, gerade fragen mich zu viele Leute. Es wurde nichts getan; bitte versuch es in einer Minute noch einmal.",
    still_running: "Deine letzten Befehle laufen noch. Es wurde nichts getan; bitte warte erst auf ihre Antworten.",

    begun_anew: "Wir fangen hier neu an: Ich weiß nicht mehr, was wir in diesem Kanal gesagt haben. Wenn du auf eine meiner älteren Nachrichten antwortest, sehe ich diese wieder.",
    fresh_already: "Es gibt nichts zu tun: Unser Gespräch in diesem Kanal ist schon neu.",
    begun_unsure: "Wir fangen hier neu an. Ich erreiche gerade meinen Speicher nicht; wenn ich später noch frühere Nachrichten kenne, führ bitte `/new` noch einmal aus.",

    conversations: |count, messages| {
        format!("{} mit {}", many(count, "Gespräch", "Gespräche"), many(messages, "Nachricht", "Nachrichten"))
    },
    recorded: |count| {
        format!("{} zum Vergleich von Modellen", many(count, "aufgezeichnete Frage", "aufgezeichnete Fragen"))
    },
    audit: |count| format!("{} über deine Werkzeugaufrufe und Zustimmungen", many(count, "Eintrag", "Einträge")),
    summaries: |count| format!("{} älterer Gesprächsteile", many(count, "Zusammenfassung", "Zusammenfassungen")),
    facts: |count| format!("{} für dich", many(count, "gemerkte Notiz", "gemerkte Notizen")),
    choice: "deine Einstellungen",
    tokens_used: "wie viele Token du verbraucht hast",
    forgotten: "**Vergessen**",
    nothing_kept: "Ich hatte nichts über dich, was ich vergessen könnte.",
    quoted_in: |count| {
        format!(
            "deine Worte in {} anderer Mitglieder, die auf meine Antworten an dich geantwortet haben",
            many(count, "Gespräch", "Gesprächen")
        )
    },
    still_answered: |count| match count {
        1 => "1 Frage von vorher wird noch beantwortet, aber nicht im Gedächtnis behalten.".to_owned(),
        _ => format!("{count} Fragen von vorher werden noch beantwortet, aber nicht im Gedächtnis behalten."),
    },
    kept: &[
        "**Was bleibt, und warum**",
        "deine Limits und jede Einschränkung, mit ihren Zeiten: `/forget` beendet sie nicht",
        "eine Stunde lang die Kennungen der Nachrichten, die ich beantwortet habe, damit ich keine zweimal beantworte",
        "die Nachrichten in den Kanälen: Sie bleiben dort, und deine kannst du selbst löschen",
    ],
    forget_again: "**Ich erreiche gerade meinen Speicher nicht.** Ich habe alle deine Daten gelöscht, die ich sehe, aber es kann mehr geben. Bitte führ `/forget` später noch einmal aus.",
    kept_for_replies: |answers| {
        format!("{} (für spätere Nachfragen)", many(answers, "Frage mit ihrer Antwort", "Fragen mit ihren Antworten"))
    },
    exported: |items| {
        format!(
            "Alles, was ich über dich aufbewahre: {items}. Die Zähler deiner Limits fehlen hier; sie laufen von selbst ab."
        )
    },
    export_again: "**Ich erreiche gerade meinen Speicher nicht**, es kann also mehr geben. Bitte führ `/export` später noch einmal aus.",

    memories: "**Was ich mir für dich merke**",
    memories_how: "Ich nutze jede Notiz dort, wo du sie mir gesagt hast, und in den Threads dort, nur für deine Fragen. `/memories forget:` löscht eine; du kannst mich auch darum bitten.",
    summarised: "**Zusammenfassungen von früheren Gesprächen**",
    summarised_how: "Ein Modell hat sie geschrieben, damit ich ein langes Gespräch fortsetzen kann. Ich nutze jede nur in ihrem Kanal und nur für deine Fragen. `/new` löscht die dieses Kanals, `/forget` löscht alle.",
    memories_more: |count| format!("und {count} weitere, die `/export` enthält"),
    no_memories: "Ich merke mir nichts für dich. Bitte mich im Gespräch darum, oder nutze `/remember`.",
    remembered: [
        "Das merke ich mir hier, nur für deine Fragen. `/memories` zeigt alles und löscht etwas davon.",
        "Das merke ich mir schon; `/memories` zeigt alles und löscht etwas davon.",
    ],
    remember_what: "Schreib, was ich mir merken soll: `/remember fact:` und einen kurzen Satz.",
    remember_off: "Hier merke ich mir keine Notizen.",
    remember_too_long: |bytes| format!("Das ist zu lang: Ich merke mir höchstens {bytes} Byte. Sag es bitte kürzer."),
    remember_full: |count| {
        format!(
            "Ich merke mir schon {} für dich, mehr geht nicht. `/memories forget:` löscht eine.",
            many(count, "Notiz", "Notizen")
        )
    },
    remember_no_room: "Für weitere Notizen ist gerade kein Platz.",
    fact_forgotten: "Ich habe es vergessen.",
    no_such_fact: "So etwas habe ich mir für dich nicht gemerkt. `/memories` zeigt, was es gibt.",
    memory_away: "Ich erreiche gerade meinen Speicher nicht. Bitte versuch es in einer Minute noch einmal.",

    change: "Etwa verbosity short, here language de oder tools off; default setzt eine Einstellung zurück",
    settings: [
        "**Deine Einstellungen**",
        "Ändere eine mit `/settings change:`, etwa `verbosity short`. Mit `here` davor gilt sie nur für dieses Gespräch; `default` setzt sie zurück.",
    ],
    marks: ["nicht gesetzt", "Standard", "hier", "vom Betreiber festgelegt"],
    setting_changed: |name, value, here| {
        let place = if here { "in diesem Gespräch" } else { "in allen Gesprächen" };
        format!("Ab deiner nächsten Nachricht ist `{name}` {place} `{value}`.")
    },
    setting_reset: |name, here| {
        let place = if here { " für dieses Gespräch" } else { "" };
        format!("`{name}` ist{place} zurückgesetzt.")
    },
    setting_unknown: |names| format!("Diese Einstellung gibt es nicht. Die Einstellungen sind {names}."),
    setting_wrong: |name, values| format!("`{name}` nimmt: {values}, oder default."),
    setting_closed: |name| format!("Die Betreiber dieses Bots lassen Mitglieder `{name}` nicht ändern."),
    setting_not_served: |name, row| {
        format!(
            "`{name}` hat gerade keine Wirkung, weil das Modell `{row}` es nicht anbietet. Es wurde nichts geändert."
        )
    },

    link_code: |code| {
        format!(
            "Dein Code ist `{code}`. Führ damit innerhalb von fünf Minuten `/link` auf der anderen Plattform aus. Er gilt einmal. Deine Konten teilen dann Limits, Verbrauch und Einstellungen. `/memories`, `/export` und `/forget` gelten für alle, und eine Einschränkung eines Kontos gilt für alle. **Zeig den Code keiner anderen Person**: Ein Konto, das ihn eingibt, kann deine Daten lesen und löschen."
        )
    },
    linked: |accounts| {
        format!(
            "Diese Konten sind jetzt verbunden: {accounts}. Die Einstellungen des ersten gelten für alle. Wenn dir eine andere Person diesen Code gegeben hat, führe sofort `/unlink` aus."
        )
    },
    unlinked: "Dieses Konto ist nicht mehr verbunden. Es hat wieder eigene Einstellungen und Limits; sein bisheriger Verbrauch zählt weiter.",
    link_refused: |refusal| match refusal {
        LinkRefusal::Closed => "Die Betreiber dieses Bots lassen Mitglieder keine Konten verbinden.",
        LinkRefusal::Code => {
            "Ich kenne diesen Code nicht: Er ist vertippt, verbraucht oder älter als fünf Minuten. Mit `/link` auf der anderen Plattform bekommst du einen neuen."
        }
        LinkRefusal::TooMany => "Es gab zu viele falsche Codes. Bitte versuche es in fünf Minuten noch einmal.",
        LinkRefusal::SameDoor => {
            "Dieser Code wurde auf dieser Plattform gezeigt und ist verbraucht. Führ `/link` auf einer Plattform aus und gib den Code auf einer anderen ein."
        }
        LinkRefusal::Already => "Diese Konten sind schon verbunden.",
        LinkRefusal::Full => "Für ein weiteres Konto ist kein Platz. `/unlink` trennt eines.",
        LinkRefusal::Restricted => {
            "Eines deiner Konten ist eingeschränkt. Du kannst es trennen, wenn die Einschränkung endet."
        }
        LinkRefusal::NoLink => "Dieses Konto ist nicht verbunden.",
        LinkRefusal::Away => "Ich erreiche gerade meinen Speicher nicht. Bitte versuch es in einer Minute noch einmal.",
    },

    switch: "on: Was du sagst, wird deine Frage; off: Ich höre dich nicht",
    voice: |reply| match reply {
        VoiceReply::Joining => "Ich komme in deinen Sprachkanal.",
        VoiceReply::Already => "Ich bin schon in deinem Sprachkanal.",
        VoiceReply::Elsewhere => {
            "Ich bin in einem anderen Sprachkanal dieses Servers. Mit `/leave` verlasse ich ihn zuerst."
        }
        VoiceReply::Absent => "Ich bin hier in keinem Sprachkanal. Mit `/join` komme ich in deinen.",
        VoiceReply::NotThere => "Du bist in keinem Sprachkanal. Geh zuerst in einen.",
        VoiceReply::NotAllowed => "Die Betreiber dieses Bots lassen dich mich nicht zwischen Sprachkanälen bewegen.",
        VoiceReply::Full => "Ich bin schon in zu vielen Sprachkanälen. Bitte versuche es später noch einmal.",
        VoiceReply::TooManyHeard => {
            "Ich höre hier schon so viele Mitglieder, wie ich kann. Bitte versuche es noch einmal, wenn eines davon gegangen ist."
        }
        VoiceReply::Leaving => "Ich verlasse den Sprachkanal.",
        VoiceReply::Listening => {
            "Ab jetzt höre ich dich in meinem Sprachkanal. Was du sagst, wird in Text umgewandelt, erscheint im Textchat und wird deine Frage. Deine Stimme wird nicht gespeichert. `/listen switch: off` beendet das."
        }
        VoiceReply::Deaf => "Ich höre dich nicht mehr.",
        VoiceReply::NoHearing => {
            "Ich kann nicht hören: Die Betreiber dieses Bots haben keine Spracherkennung eingestellt. Ich spreche meine Antworten auf das, was du schreibst."
        }
        VoiceReply::Failed => "Das hat leider nicht geklappt. Bitte führe es in einer Minute noch einmal aus.",
    },
    voice_notice: |notice| match notice {
        VoiceNotice::Joined { hears } => {
            let hears = if *hears {
                " Ich höre nur Mitglieder, die `/listen` ausführen."
            } else {
                " Ich höre kein Mitglied."
            };
            format!("Ich bin in diesem Sprachkanal und spreche meine Antworten auf Fragen in seinem Textchat.{hears}")
        }
        VoiceNotice::Listens(name) => {
            format!("Ab jetzt höre ich {name}, auf eigenen Wunsch. Stimmen werden nicht gespeichert.")
        }
        VoiceNotice::Deaf(name) => format!("Ich höre {name} nicht mehr."),
        VoiceNotice::Lost => {
            "Ich habe die Verbindung zu diesem Sprachkanal verloren und ihn verlassen. Mit `/join` komme ich wieder."
                .to_owned()
        }
    },

    default_answers: |row| format!("Dir antwortet das Standardmodell, `{row}`."),
    chose: |row| format!("Du hast `{row}` gewählt."),
    choice_gone: |row| format!("Du hast `{row}` gewählt, das es nicht mehr gibt."),
    no_other: "Ein anderes Modell steht nicht zur Wahl.",
    can_choose: "Wählen kannst du mit `/model row:`",
    default_mark: "Standard",
    model_chosen: |row| format!("Ab deiner nächsten Nachricht antwortet dir `{row}`, in jedem Kanal."),
    may_be_lost: "Ich erreiche gerade meinen Speicher nicht; ein Neustart kann das also rückgängig machen.",
    model_default: |row| format!("Ab deiner nächsten Nachricht antwortet dir das Standardmodell, derzeit `{row}`."),
    no_such_model: |asked, rows| format!("Ein Modell `{asked}` gibt es nicht. Du kannst {rows} wählen."),

    window: |whose, messages, tokens, span| {
        let who = whose.map_or_else(|| "Du hast".to_owned(), |whose| format!("{whose} hat"));
        let ([messages, messages_max], [tokens, tokens_max]) = (messages, tokens);
        format!(
            "{who} {messages} von {messages_max} Nachrichten und {tokens} von {tokens_max} Token verbraucht (Zeitfenster: {span})."
        )
    },
    account: |scope, [used, most], span| {
        let who = match scope {
            Scope::Member => "Du",
            Scope::Role => "Deine Rolle",
            Scope::Channel => "Dieser Kanal",
            Scope::Key => "Dieser Schlüssel",
            Scope::Tool => "Dieses Werkzeug",
            Scope::Guild => "Dieser Server",
        };
        format!("{who}: {used} von {most} (Zeitfenster: {span}).")
    },
    amounts: ["Nachrichten", "Token", "Aufrufe"],
    exempt: "Diese Limits gelten nicht: eine Rolle ist davon ausgenommen.",
    accepted: |moment| format!("Die nächste Nachricht wird {moment} angenommen."),
    standing_unknown: "Ich kann gerade nicht sagen, wie viel von den Limits verbraucht ist.",
    sums: ["Heute", "Sieben Tage", "Insgesamt"],
    nothing: "nichts",
    tokens: |tokens| format!("{tokens} Token"),
    for_messages: |count| format!(" für {}", many(count, "Nachricht", "Nachrichten")),
    unpriced: " und Verbrauch ohne Preis",
    cached: |cached| format!(" (davon {cached} aus einem Zwischenspeicher)"),
    all_today: "Alle Mitglieder heute",
    tools_today: "Werkzeuge heute",
    calls: |calls, failed| {
        let failed = if failed > 0 { format!(", {failed} fehlgeschlagen") } else { String::new() };
        format!("{}{failed}", many(calls, "Aufruf", "Aufrufe"))
    },
    experiments: "Experimente",
    answers: |count| many(count, "Antwort", "Antworten"),
    apologies: |count| many(count, "Entschuldigung", "Entschuldigungen"),
    repaired: |count| format!("{count} repariert"),
    took: |half, most| format!("die Hälfte in {half} s, 95 % in {most} s"),

    down: |part, why| format!("**{part} ist ausgefallen**: {why}"),
    rejected: |why| format!("**Die geänderten Dateien gelten nicht**: {why}"),
    all_up: "Alle Teile laufen.",
    up_for: "Läuft seit",
    configuration: "Konfiguration",
    shards: "Shards",
    connected: |up, all| format!("{up} von {all} verbunden"),
    models: "Modelle",
    left_alone: |rows| format!("pausiert: {rows}"),
    store: "Speicher",
    store_works: "funktioniert",
    store_fails: "fällt aus; Daten bleiben im Arbeitsspeicher",
    turns: "Fragen",
    turns_so_far: |now, all| format!("{now} in Arbeit, {all} seit dem Start"),
    in_use: "Belegt",
    queues: "Warteschlangen",
    empty: "leer",
    restarts: "Neustarts",
    none: "keine",
    limits: "Limits für jedes Mitglied",
    limits_are: |messages, tokens, span| format!("{messages} Nachrichten, {tokens} Token in {span}"),
    memory: "Arbeitsspeicher",

    no_tools: "Kein Werkzeugserver ist verbunden; ich antworte mit dem, was ich weiß, und aus unserem Gespräch.",
    tools: "**Werkzeuge**",
    without_tools: "keine Werkzeuge",
    own_tools: "meine eigenen",
    resources: "Nenne sie in einer Frage, um sie anzuhängen:",
    no_resources: "Es gibt keine Ressourcen, die du lesen darfst.",
    not_listed: "kann gerade nicht aufgelistet werden; versuche es später noch einmal",
    held_back: |tools| format!("geändert und zurückgehalten, bis ein Betreiber `/refresh_tools` ausführt: {tools}"),
    list_verified: |at| format!("Liste geprüft {at}"),
    more_names: |tools, more| format!("{tools} und {more} weitere"),
    no_lists: "Kein Werkzeugserver ist verbunden; es gibt also keine Liste zu lesen.",
    reading_lists: |servers| {
        format!(
            "Ich lese die Listen von {} neu: `/tools` zeigt das Ergebnis.",
            many(servers, "Werkzeugserver", "Werkzeugservern")
        )
    },
    nothing_waits: "Kein Werkzeugaufruf wartet auf Zustimmung.",
    waiting: "**Wartet auf Zustimmung**",
    waits: |tool, place, who, until| format!("`{tool}` in {place} für {who}, läuft {until} ab"),
    nothing_allowed: "Kein Werkzeugaufruf ist im Voraus erlaubt.",
    allowed: "**Eine Zeit lang erlaubt** (zurücknehmen mit `/approvals withdraw:` und der Kennung)",
    allows: |id, tool, place, whose, until| {
        let whose = whose.map_or_else(|| "alle dort".to_owned(), str::to_owned);
        format!("`{id}`: `{tool}` in {place} für {whose}, endet {until}")
    },
    withdrawn: |id| format!("`{id}` ist zurückgenommen: Der Aufruf braucht wieder Zustimmung."),
    no_such_allowance: |id| {
        format!("Es gibt kein `{id}`, das du zurücknehmen könntest; `/approvals` zeigt, was erlaubt ist.")
    },
    refreshed: |version| {
        format!(
            "Ich lese meine Prompts und Einstellungen neu und schreibe eine neue Statuszeile, falls sie eingeschaltet ist. Wenn \
             sich die Dateien geändert haben und gültig sind, zeigt `/status` eine andere Konfiguration als `{version}`."
        )
    },

    help: "Ich antworte, wenn du mich erwähnst oder auf eine meiner Nachrichten antwortest. Ich erinnere mich daran, was du und ich zuletzt in diesem Kanal gesagt haben. Von anderen Mitgliedern und aus anderen Kanälen sehe ich nichts, außer einer Nachricht, auf die du antwortest.",
    help_alone: "Ich antworte hier auf jede deiner Nachrichten. Ich erinnere mich daran, was du und ich zuletzt in diesem Gespräch gesagt haben, und sehe kein anderes.",
    help_direct: "Du kannst mir auch direkt schreiben.",
    help_commands: "**Befehle** (die Antworten siehst nur du)",
    help_kept: "**Was ich aufbewahre**: unsere letzten Nachrichten in jedem Gespräch, für eine Weile; was ich mir für dich merken soll; deine Einstellungen; deine Werkzeugaufrufe; wie viele Token du verbraucht hast. Es bleibt im eigenen Speicher dieses Bots; deine Fragen gehen an das Modell, das antwortet. `/export` zeigt dir alles davon, `/forget` löscht es.",
};
