//! The answers to commands in English.

use super::many;
use super::words::Words;
use crate::command::CommandKind;
use crate::limits::account::Scope;
use crate::people::LinkRefusal;
use crate::voice_channel::{VoiceNotice, VoiceReply};

pub(super) const WORDS: Words = Words {
    describe: |kind| match kind {
        CommandKind::Help => "What I do, how to talk to me, and the commands that you may run",
        CommandKind::New => "Start our conversation here over",
        CommandKind::Model => "See or choose the model that answers you",
        CommandKind::Settings => "See or change how I answer you: length, language, tools, memory and more",
        CommandKind::Usage => "Your usage, and what is left of your limits",
        CommandKind::Forget => "Delete everything that I keep about you",
        CommandKind::Export => "Get everything that I keep about you as a file",
        CommandKind::Remember => "Tell me a fact to remember here",
        CommandKind::Memories => "List the facts that I remember for you, or delete one",
        CommandKind::Link => "Link your accounts on two platforms: shared limits, settings and memory",
        CommandKind::Unlink => "Unlink this account from your other accounts",
        CommandKind::Join => "Join your voice channel and speak my answers there",
        CommandKind::Leave => "Leave the voice channel",
        CommandKind::Listen => "Listen to you in the voice channel: on, off",
        CommandKind::Tools => "The tools that I can use",
        CommandKind::Status => "Show my state: parts, models, queues, limits",
        CommandKind::Approvals => "Tool calls that wait for approval, and tool calls that are allowed for a while",
        CommandKind::RefreshTools => "Reload the tool lists of all servers",
        CommandKind::RefreshStatus => "Reload my prompts and settings, and write a new status line",
    },
    row: "The model that answers you from now on; default resets your choice",
    user: "Another member; only for operators",
    withdraw: "The id of an allowed tool call; that call requires approval again",
    fact: "The fact to forget",
    category: "The category whose tools are shown, such as search",
    remember: "The fact to remember, in one short sentence",
    link: "The code that I showed you on the other platform; leave it out to get a code",
    digit: |c| c,

    operators_only: |name| format!("`/{name}` is only for operators of this bot."),
    usage_of_others: "Only operators can see the usage of other members. Run `/usage` without a name to see your own.",
    unknown: "I do not know this command. Your list of commands may be outdated; `/help` lists all of them.",
    broken: "Sorry, something went wrong on my side, and I cannot say how far this got. Please run it again.",
    too_slow: "Sorry, this took too long, and I stopped before the end. Please run it again in a minute.",
    forgetting_goes_on: "I have recorded that all your data is to be deleted. This takes longer than usual, and it goes on by itself; you need not run `/forget` again.",
    busy: "Sorry, too many people are asking me things right now. Nothing was done; please run it again in a minute.",
    still_running: "Your last commands are still running. Nothing was done; please wait for their answers first.",

    begun_anew: "We start over here: I no longer know what we said in this channel. If you reply to one of my older messages, I see that message again.",
    fresh_already: "There is nothing to do: our conversation in this channel is already new.",
    begun_unsure: "We start over here. I cannot reach my storage at the moment; if I still know earlier messages later, run `/new` again.",

    conversations: |count, messages| {
        format!("{} with {}", many(count, "conversation", "conversations"), many(messages, "message", "messages"))
    },
    summaries: |count| format!("{} of older parts of conversations", many(count, "summary", "summaries")),
    facts: |count| format!("{} that you told me to remember", many(count, "fact", "facts")),
    recorded: |count| format!("{} recorded to compare models", many(count, "question", "questions")),
    audit: |count| format!("{} of your tool calls and approvals", many(count, "record", "records")),
    choice: "your settings",
    tokens_used: "how many tokens you used",
    forgotten: "**Forgotten**",
    nothing_kept: "I kept nothing about you that could be forgotten.",
    quoted_in: |count| {
        format!(
            "your words in {} of other members, who replied to my answers to you",
            many(count, "conversation", "conversations")
        )
    },
    still_answered: |count| {
        format!("{} from before this will still be answered, but not remembered.", many(count, "question", "questions"))
    },
    kept: &[
        "**Kept, and why**",
        "your limits and any restriction, with their times: `/forget` does not end them",
        "for an hour, the ids of messages that I answered, so that I answer none twice",
        "the messages in the channels: they stay there, and you can delete yours",
    ],
    forget_again: "**I cannot reach my storage at the moment.** I deleted all your data that I can see, but there may be more. Please run `/forget` again later.",
    kept_for_replies: |answers| {
        format!("{} (kept for replies)", many(answers, "question with its answer", "questions with their answers"))
    },
    exported: |items| {
        format!(
            "Everything that I keep about you: {items}. The counts for your limits are not included; they expire by themselves."
        )
    },
    export_again: "**I cannot reach my storage at the moment**, so there may be more. Please run `/export` again later.",

    memories: "**What you told me to remember**",
    memories_how: "I use each fact where you told it and in the threads there, only for your questions. `/memories forget:` deletes one; you can also ask me to.",
    summarised: "**Summaries of what we said earlier**",
    summarised_how: "A model wrote them, so that I can go on with a long conversation. I use each in its channel, only for your questions. `/new` deletes the one of this channel, `/forget` deletes all.",
    memories_more: |count| format!("and {count} more; `/export` contains all"),
    no_memories: "I remember no facts for you. Ask me to remember something when you talk to me, or run `/remember`.",
    remembered: [
        "I will remember that here, only for your questions. `/memories` lists all facts and deletes one.",
        "I remember that already; `/memories` lists all facts and deletes one.",
    ],
    remember_what: "Write the fact to remember: `/remember fact:` and one short sentence.",
    remember_off: "Remembering facts is disabled here.",
    remember_too_long: |bytes| {
        format!("That is too long for me to remember: at most {bytes} bytes. Say it in fewer words.")
    },
    remember_full: |count| {
        format!(
            "I already remember {} for you, which is the maximum. `/memories forget:` deletes one.",
            many(count, "fact", "facts")
        )
    },
    remember_no_room: "There is no room for more memories at the moment.",
    fact_forgotten: "I have forgotten it.",
    no_such_fact: "I remember no such fact. `/memories` lists your facts.",
    memory_away: "I cannot reach my storage at the moment. Please run this again in a minute.",

    change: "For example verbosity short, here language de, or tools off; default resets a setting",
    settings: [
        "**Your settings**",
        "Change one with `/settings change:`, such as `verbosity short`. With `here` in front it applies to this conversation alone; `default` resets it.",
    ],
    marks: ["not set", "default", "here", "fixed by the operator"],
    setting_changed: |name, value, here| {
        let place = if here { "in this conversation" } else { "in every conversation" };
        format!("From your next message on, `{name}` is `{value}` {place}.")
    },
    setting_reset: |name, here| {
        let place = if here { " for this conversation" } else { "" };
        format!("`{name}` is reset{place}.")
    },
    setting_unknown: |names| format!("There is no such setting. The settings are {names}."),
    setting_wrong: |name, values| format!("`{name}` accepts: {values}, or default."),
    setting_closed: |name| format!("The operators of this bot do not let members change `{name}`."),
    setting_not_served: |name, row| {
        format!(
            "`{name}` has no effect at the moment, because the model `{row}` does not offer it. Nothing was changed."
        )
    },

    link_code: |code| {
        format!(
            "Your code is `{code}`. Within five minutes, run `/link` with it on the other platform. It works once. Your accounts then share limits, usage and settings. `/memories`, `/export` and `/forget` cover all of them, and a restriction of one applies to all. **Do not show the code to other persons**: an account that enters it can read and delete your data."
        )
    },
    linked: |accounts| {
        format!(
            "These accounts are linked now: {accounts}. The settings of the first one apply to all. If another person gave you this code, run `/unlink` at once."
        )
    },
    unlinked: "This account is no longer linked. It has its own settings and limits again; its usage so far still counts.",
    link_refused: |refusal| match refusal {
        LinkRefusal::Closed => "The operators of this bot do not let members link accounts.",
        LinkRefusal::Code => {
            "I do not know this code: it is mistyped, used or older than five minutes. Run `/link` on the other platform to get a new one."
        }
        LinkRefusal::TooMany => "There were too many wrong codes. Please try again in five minutes.",
        LinkRefusal::SameDoor => {
            "This code was shown on this platform, and is used up. Run `/link` on one platform, and enter the code on another one."
        }
        LinkRefusal::Already => "These accounts are linked already.",
        LinkRefusal::Full => "There is no room for a further account. `/unlink` removes one.",
        LinkRefusal::Restricted => "One of your accounts is restricted. You can unlink when the restriction has ended.",
        LinkRefusal::NoLink => "This account has no links.",
        LinkRefusal::Away => "I cannot reach my storage at the moment. Please run this again in a minute.",
    },

    switch: "on: what you say becomes your question; off: I do not hear you",
    voice: |reply| match reply {
        VoiceReply::Joining => "I am joining your voice channel.",
        VoiceReply::Already => "I am in your voice channel already.",
        VoiceReply::Elsewhere => "I am in another voice channel of this server. `/leave` has me leave it first.",
        VoiceReply::Absent => "I am in no voice channel here. `/join` has me join yours.",
        VoiceReply::NotThere => "You are in no voice channel. Join one first.",
        VoiceReply::NotAllowed => "The operators of this bot do not let you move me between voice channels.",
        VoiceReply::Full => "I am in too many voice channels already. Please try again later.",
        VoiceReply::TooManyHeard => {
            "I already hear as many members as I can here. Please try again when one of them has left."
        }
        VoiceReply::Leaving => "I am leaving the voice channel.",
        VoiceReply::Listening => {
            "I hear you in my voice channel from now on. What you say is transcribed, appears in the text chat and becomes your question. Your voice is not stored. `/listen switch: off` ends this."
        }
        VoiceReply::Deaf => "I no longer hear you.",
        VoiceReply::NoHearing => {
            "I cannot hear: the operators of this bot have set no speech recognition. I speak my answers to what you write."
        }
        VoiceReply::Failed => "Sorry, that did not work. Please run it again in a minute.",
    },
    voice_notice: |notice| match notice {
        VoiceNotice::Joined { hears } => {
            let hears = if *hears { " I hear only members who run `/listen`." } else { " I hear no member." };
            format!("I am in this voice channel and speak my answers to questions in its text chat.{hears}")
        }
        VoiceNotice::Listens(name) => format!("I hear {name} from now on, at their request. Voices are not stored."),
        VoiceNotice::Deaf(name) => format!("I no longer hear {name}."),
        VoiceNotice::Lost => {
            "I lost the connection to this voice channel and left it. `/join` has me join again.".to_owned()
        }
    },

    default_answers: |row| format!("You are answered by the default model, `{row}`."),
    chose: |row| format!("You chose `{row}`."),
    choice_gone: |row| format!("You chose `{row}`, which no longer exists."),
    no_other: "There is no other model to choose.",
    can_choose: "You can choose with `/model row:`",
    default_mark: "default",
    model_chosen: |row| format!("From your next message on, `{row}` answers you, in every channel."),
    may_be_lost: "I cannot reach my storage at the moment, so a restart may undo this.",
    model_default: |row| format!("From your next message on, the default model answers you, which is `{row}` now."),
    no_such_model: |asked, rows| format!("There is no model `{asked}`. You can choose {rows}."),

    window: |whose, messages, tokens, span| {
        let who = whose.map_or_else(|| "You have".to_owned(), |whose| format!("{whose} has"));
        let ([messages, messages_max], [tokens, tokens_max]) = (messages, tokens);
        format!(
            "{who} used {messages} of {messages_max} messages and {tokens} of {tokens_max} tokens in the last {span}."
        )
    },
    account: |scope, [used, most], span| {
        let who = match scope {
            Scope::Member => "You",
            Scope::Role => "Your role",
            Scope::Channel => "This channel",
            Scope::Key => "This key",
            Scope::Tool => "This tool",
            Scope::Guild => "This server",
        };
        format!("{who}: {used} of {most} in the last {span}.")
    },
    amounts: ["messages", "tokens", "calls"],
    exempt: "These limits do not apply: a role is exempt from them.",
    accepted: |moment| format!("The next message will be accepted {moment}."),
    standing_unknown: "I cannot tell at the moment how much of the limits is used.",
    sums: ["Today", "Seven days", "In all"],
    nothing: "nothing",
    tokens: |tokens| format!("{tokens} tokens"),
    for_messages: |count| format!(" for {}", many(count, "message", "messages")),
    unpriced: " and usage without a price",
    cached: |cached| format!(" ({cached} of them from a cache)"),
    all_today: "All members today",
    tools_today: "Tools today",
    calls: |calls, failed| {
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        format!("{}{failed}", many(calls, "call", "calls"))
    },
    experiments: "Experiments",
    answers: |count| many(count, "answer", "answers"),
    apologies: |count| many(count, "apology", "apologies"),
    repaired: |count| format!("{count} repaired"),
    took: |half, most| format!("half within {half} s, 95 % within {most} s"),

    down: |part, why| format!("**{part} is down**: {why}"),
    rejected: |why| format!("**The changed files are not in effect**: {why}"),
    all_up: "All parts are up.",
    up_for: "Up for",
    configuration: "Configuration",
    shards: "Shards",
    connected: |up, all| format!("{up} of {all} connected"),
    models: "Models",
    left_alone: |rows| format!("paused: {rows}"),
    store: "Store",
    store_works: "works",
    store_fails: "fails; data is kept in memory",
    turns: "Turns",
    turns_so_far: |now, all| format!("{now} in flight, {all} since the start"),
    in_use: "In use",
    queues: "Queues",
    empty: "empty",
    restarts: "Restarts",
    none: "none",
    limits: "Limits for each member",
    limits_are: |messages, tokens, span| format!("{messages} messages, {tokens} tokens in {span}"),
    memory: "Memory",

    no_tools: "No tool server is connected, so I answer from what I know and from our conversation.",
    tools: "**Tools**",
    without_tools: "no tools",
    own_tools: "my own",
    resources: "Name these in a question, to attach them:",
    no_resources: "There are no resources that you may read.",
    not_listed: "cannot be listed now; try again later",
    held_back: |tools| format!("changed, and held back until an operator runs `/refresh_tools`: {tools}"),
    list_verified: |at| format!("list verified {at}"),
    more_names: |tools, more| format!("{tools} and {more} more"),
    no_lists: "No tool server is connected, so there is no list to reload.",
    reading_lists: |servers| {
        format!("Reloading the lists of {}: `/tools` shows the result.", many(servers, "tool server", "tool servers"))
    },
    nothing_waits: "No tool call waits for approval.",
    waiting: "**Waiting for approval**",
    waits: |tool, place, who, until| format!("`{tool}` in {place} for {who}, expires {until}"),
    nothing_allowed: "No tool call is allowed in advance.",
    allowed: "**Allowed for a while** (withdraw one with `/approvals withdraw:` and its id)",
    allows: |id, tool, place, whose, until| {
        let whose = whose.map_or_else(|| "all members there".to_owned(), str::to_owned);
        format!("`{id}`: `{tool}` in {place} for {whose}, ends {until}")
    },
    withdrawn: |id| format!("`{id}` is withdrawn: the call requires approval again."),
    no_such_allowance: |id| format!("There is no `{id}` to withdraw; `/approvals` lists what is allowed."),
    refreshed: |version| {
        format!(
            "I am reloading my prompts and settings, and writing a new status line if that is enabled. If the files changed and \
             are valid, `/status` shows a configuration other than `{version}`."
        )
    },

    help: "I answer when you mention me or reply to one of my messages. I remember what you and I said in this channel lately. I see nothing from other members or channels, except a message that you reply to.",
    help_alone: "I answer each of your messages here. I remember what you and I said in this conversation lately, and I see no other one.",
    help_direct: "You can also write to me directly.",
    help_commands: "**Commands** (only you see the answers)",
    help_kept: "**What I keep**: our last messages in each conversation, for a while; what you told me to remember; your settings; your tool calls; how many tokens you used. It stays in this bot's own storage; your questions are sent to the model that answers. `/export` shows you all of it, `/forget` deletes it.",
};
