//! The names of all log events. Dashboards and alerts depend on them, so they are never renamed.

/// Declares each name once, with its meaning.
macro_rules! events {
    ($($name:ident = $text:literal: $meaning:literal;)*) => {
        $(#[doc = concat!("The event `", $text, "`.")] pub const $name: &str = $text;)*

        /// Each event and its meaning. A repository test checks that the source uses no other.
        pub const EVENTS: &[(&str, &str)] = &[$(($name, $meaning)),*];
    };
}

events! {
    ACTOR_STARTED = "actor.started": "an actor started";
    ACTOR_STOPPED = "actor.stopped": "an actor stopped as intended";
    ACTOR_FAILED = "actor.failed": "an actor panicked or returned an error";
    ACTOR_RESTARTED = "actor.restarted": "a supervisor restarted an actor after a failure";
    ACTOR_ESCALATED = "actor.escalated": "a supervisor exceeded its restart limit and failed itself";
    ACTOR_HUNG = "actor.hung": "a handler exceeds the time limit of its row in the tree; `action` says how the watchdog reacts";
    ACTOR_POISONED = "actor.poisoned": "an actor failed three times on the same message, and the message was discarded";
    ACTOR_OVERFLOWED = "actor.overflowed": "an actor refused messages because its mailbox was full, and has room again";
    ACTOR_HEALTH = "actor.health": "state, restarts, mailbox depth, refused and handled messages and last error, summed over all actors of a kind: at INFO after a state change, at DEBUG every minute";
    TREE_HEALTH = "tree.health": "every minute: number of actors, actors that are down, total restarts, deepest mailbox";
    MEMORY_RELEASED = "memory.released": "file pages that only the start needed were unmapped; they are mapped again on use";
    PLAYGROUND_BOT_STARTED = "playground.bot_started": "the playground started its bot process";
    PLAYGROUND_BOT_ENDED = "playground.bot_ended": "the playground's bot process ended; the playground restarts it";
    PLAYGROUND_CHAT_UNREAD = "playground.chat_unread": "the stored chat of the playground cannot be read; the page starts empty";
    PLAYGROUND_CHAT_UNWRITTEN = "playground.chat_unwritten": "the chat of the playground cannot be stored";
    PLAYGROUND_MODEL_FOUND = "playground.model_found": "a model server answers on this machine; the page offers its models";
    PLAYGROUND_MODEL_CHOSEN = "playground.model_chosen": "a user of the page chose the model that answers from now on";
    GATEWAY_DROPPED = "gateway.dropped": "an incoming event was ignored or unreadable; `reason` says why";
    GATEWAY_DIRECT_IGNORED = "gateway.direct_ignored": "a direct message was ignored as configured; logged once per hour";
    GATEWAY_FORBIDDEN = "gateway.forbidden": "the bot was addressed in a channel where it has no permission to answer";
    GATEWAY_READY = "gateway.ready": "a shard started a new session";
    GATEWAY_RESUMED = "gateway.resumed": "a shard resumed its session";
    GATEWAY_CLOSED = "gateway.closed": "a gateway connection ended";
    SOURCE_LOST = "source.lost": "the connection of a door ended; the bot reconnects";
    SOURCE_REFUSED = "source.refused": "the platform of a door rejects the bot permanently";
    TURN_NO_DOOR = "turn.no_door": "a stored turn belongs to a door that is not configured; it stays in the store until the door returns";
    GATEWAY_IDENTIFY = "gateway.identify": "few identify requests remain for today";
    GATEWAY_CAUGHT_UP = "gateway.caught_up": "messages missed during a gap were read";
    TURN_ACCEPTED = "turn.accepted": "a turn was accepted and is stored in the journal";
    TURN_REFUSED = "turn.refused": "a message gets no answer; `reason` says why";
    TURN_REPLIED = "turn.replied": "a reply was posted; `outcome` says whether it is an answer, a hint or an apology";
    TURN_FENCED = "turn.fenced": "another process owns the turn; it is dropped here without an answer";
    TURN_FAILED = "turn.failed": "a turn ended without an answer; `turn.replied` follows if an apology was posted";
    TURN_PANICKED = "turn.panicked": "the task of a turn panicked; an apology was posted";
    TURN_SHED = "turn.shed": "work was rejected because of overload: one line per turn; otherwise at most one line per member in 10 seconds, with the `count` of rejections";
    TURN_PARKED = "turn.parked": "a turn waits for an approval; its lane is free meanwhile";
    GATE_ASKED = "gate.asked": "approval of a tool call was requested";
    GATE_DECIDED = "gate.decided": "a tool call was approved or denied, by a person or by expiry";
    GATE_REFUSED = "gate.refused": "a press of an approval button was rejected: no permission, or too late (`reason`)";
    LISTENER_UNREACHABLE = "listener.unreachable": "an additional listen address is not available; the bot retries";
    EMBEDDINGS_MADE = "embeddings.made": "an embeddings request of a program ended; if it failed, the reason is given";
    TURN_RESUMED = "turn.resumed": "a turn continued after a restart or a decision";
    COMMAND_ANSWERED = "command.answered": "a command ended: `command`, `outcome` and milliseconds";
    COMMAND_LOST = "command.lost": "a command could not be answered; it had no effect if its acknowledgement failed";
    COMMAND_PANICKED = "command.panicked": "the task of a command panicked; the member was informed";
    COMMANDS_OFFERED = "commands.offered": "the slash commands are registered; `changed` says whether an update was needed";
    COMMANDS_REFUSED = "commands.refused": "the slash commands could not be registered; the bot retries";
    OUTBOX_RETRIED = "outbox.retried": "a post is retried";
    OUTBOX_CLOSED = "outbox.closed": "a place is gone or not accessible; the outbox skips it for some seconds";
    OUTBOX_REFUSED = "outbox.refused": "a notice could not be posted";
    OUTBOX_DELAYED = "outbox.delayed": "the platform refused a post for the second time: `turn`, `error` (such as `discord answered 503`), duration in `ms`; the answer is late";
    OUTBOX_BESIDE = "outbox.beside": "an answer was refused four times; it is retried separately and no longer blocks later answers";
    OUTBOX_PLAIN = "outbox.plain": "a place refused the full answer and accepted a reduced one: `form` is `Words` (no cards or files), `Apology` or `Reaction`";
    OUTBOX_NO_PICTURE = "outbox.no_picture": "a formula could not be rendered and was shown as text";
    LIMIT_REFUSED = "limit.refused": "a message exceeds a limit of its member";
    AGENT_REFUSED = "agent.refused": "a message from another server was rejected: `key` is its name here, `reason` says what is wrong with its chain";
    TRIGGER_REFUSED = "trigger.refused": "a timer or a webhook request started no turn; `reason` says why";
    RESTRICTION_ADDED = "restriction.added": "a member was restricted";
    RESTRICTION_LIFTED = "restriction.lifted": "a restriction ended";
    RESTRICTION_FAILED = "restriction.failed": "a role could not be given or removed; the bot retries";
    LLM_CALLED = "llm.called": "a model call ended; `purpose` says whether for a turn or a status line";
    LLM_REPAIRED = "llm.repaired": "a model answer violated the schema; it was repaired or requested again";
    LLM_REFUSED = "llm.refused": "a provider rejected several turns in a row for the same reason; its row is misconfigured";
    LLM_ACCEPTED = "llm.accepted": "a row that was rejected works again";
    LLM_WENT_ON = "llm.went_on": "a partly shown answer broke off; a fallback row continues it";
    LLM_FALLBACK = "llm.fallback": "a model failed and another row was called";
    LLM_PLAIN = "llm.plain": "a provider rejected an optional part of requests; `without` names the part that is omitted for a while";
    MCP_STATE = "mcp.state": "the state of a tool server changed: `from` and `to` are starting, ready, degraded, open or stopped; `reason` says why";
    MCP_LOGIN = "mcp.login": "the login at a tool server cannot be renewed or stored; `mistake` says why";
    MCP_LISTED = "mcp.listed": "the tool list of a server was read, is invalid, or cannot be read";
    PROVIDERS_LISTENING = "providers.listening": "the bot listens for processes that provide tools over NATS";
    PROVIDERS_LOST = "providers.lost": "the NATS connection for tool providers ended; the bot reconnects";
    PROVIDERS_ODD = "providers.odd": "an announcement of a tool provider is invalid; the reason is given";
    NATS_ODD = "nats.odd": "NATS reported an error, messages arrive faster than they are read, or a question has a reply subject that is no inbox";
    TOOLS_CHANGED = "tools.changed": "the offered tools changed: number of tools, number of rejected ones";
    TOOL_REFUSED = "tool.refused": "a tool is not offered: its name is ambiguous, or there are too many tools";
    TOOL_CHANGED = "tool.changed": "a tool differs from its accepted definition; unless `accepted`, it is held back until an operator runs /refresh_tools";
    TOOL_SIMPLIFIED = "tool.simplified": "the schema of a tool was reduced for models, because providers reject parts of it";
    TOOL_CALLED = "tool.called": "a tool call ended or was not allowed: `outcome` is `ok` or the cause; `queue_ms` behind other calls, `wait_ms` for permits and records, `run_ms` at the tool";
    GATE_ALLOWED = "gate.allowed": "an approver allowed identical calls in one place for a limited time; `allowance` is its id";
    GATE_WITHDRAWN = "gate.withdrawn": "an allowance was withdrawn by `by`";
    AUDIT_FULL = "audit.full": "the audit has no room for more calls of this day; the log still records each call";
    DATABASE_UNREAD = "database.unread": "the columns of a database cannot be read; models see table names only, and the bot retries";
    SEARCH_FAILED = "search.failed": "a web search provider failed and the next one was called: `provider` and `reason`";
    ATTACHMENT_UNREAD = "attachment.unread": "an attachment was named to the model but not read; the reason is given";
    BREAKER_OPENED = "breaker.opened": "the circuit breaker of a failing model opened; the model is not called for a while";
    BREAKER_CLOSED = "breaker.closed": "a model works again; its circuit breaker closed";
    STORE_FENCED = "store.fenced": "another process took over a range of turns; this process no longer answers them";
    STORE_DEGRADED = "store.degraded": "the store fails; state is kept in memory";
    STORE_RECOVERED = "store.recovered": "the store works again and has the state kept in memory";
    STORE_KEEPING = "store.keeping": "data that Redis can lose with its settings (INFO), or a promise that they break (ERROR)";
    BACKUP_MADE = "backup.made": "a backup is complete: `lines`";
    BACKUP_FAILED = "backup.failed": "a backup is incomplete (`reason`); `staffai restore` rejects its file";
    STORE_DROPPED = "store.dropped": "the store fails and memory is full; the oldest keys were dropped";
    STORE_UNSAVED = "store.unsaved": "the store closed before all data was durable";
    STORE_CORRUPT = "store.corrupt": "a record cannot be read; it was skipped or quarantined";
    REPORT_POSTED = "report.posted": "a usage report was posted";
    REPORT_FAILED = "report.failed": "a usage report could not be posted; the bot retries";
    PROMPT_CHANGED = "prompt.changed": "a section of the system prompt was changed at run time: `section`, version `number`, `change`, `by`";
    CONFIG_RELOADED = "config.reloaded": "new settings took effect; `files` names the changed files";
    CONFIG_WARNING = "config.warning": "a setting is suspicious but does not stop the program";
    METRICS_UNAVAILABLE = "metrics.unavailable": "metrics cannot be collected; everything else works";
    CONFIG_REJECTED = "config.rejected": "changed settings are invalid; the previous ones stay in effect";
    PROGRAM_STARTED = "program.started": "the program starts: version, configuration version, model, store, doors and address";
    SERVICE_STARTED = "service.started": "the tree has started; pages are served at `address`";
    DRAIN_STARTED = "drain.started": "draining started: open turns finish, new ones are not accepted";
    DRAIN_FINISHED = "drain.finished": "the program ends: `finished` says whether all open turns were answered, `left` how many remain for the next start, `saved` whether all data was stored";
    DISCORD_MESSAGE_DROPPED = "discord.message_dropped": "a message of the channel history could not be read";
    TRACES_UNREACHABLE = "traces.unreachable": "the trace collector is unreachable; the bot retries";
    TRACES_RECOVERED = "traces.recovered": "the trace collector accepts traces again";
    PANIC = "panic": "a panic occurred; the supervisor logs the consequence";
    LOG_SHED = "log.shed": "log lines were dropped because their reader is too slow";
    API_LISTENING = "api.listening": "pages are served at the given address";
    API_REFUSED = "api.refused": "a connection could not be accepted";
    OPS_UNREACHABLE = "ops.unreachable": "health and pages cannot be served; the bot retries";
}
