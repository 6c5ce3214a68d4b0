//! The sentences that each language needs for answers to commands.

use crate::command::CommandKind;
use crate::limits::account::Scope;
use crate::people::LinkRefusal;
use crate::voice_channel::{VoiceNotice, VoiceReply};

/// All sentences in one language. A sentence with values is a function of them.
pub(super) struct Words {
    /// The description of a command, at most 100 characters.
    pub(super) describe: fn(CommandKind) -> &'static str,
    /// The descriptions of the options of `/model`, `/usage` and `/approvals`.
    pub(super) row: &'static str,
    pub(super) user: &'static str,
    pub(super) withdraw: &'static str,
    /// The description of the option of `/memories`.
    pub(super) fact: &'static str,
    /// The description of the option of `/tools`.
    pub(super) category: &'static str,
    /// The description of the option of `/remember`.
    pub(super) remember: &'static str,
    /// The description of the option of `/link`.
    pub(super) link: &'static str,
    /// Converts the characters of an English number: its commas and points become these.
    pub(super) digit: fn(char) -> char,

    pub(super) operators_only: fn(&str) -> String,
    pub(super) usage_of_others: &'static str,
    pub(super) unknown: &'static str,
    pub(super) broken: &'static str,
    pub(super) too_slow: &'static str,
    pub(super) forgetting_goes_on: &'static str,
    pub(super) busy: &'static str,
    pub(super) still_running: &'static str,

    pub(super) begun_anew: &'static str,
    pub(super) fresh_already: &'static str,
    pub(super) begun_unsure: &'static str,

    pub(super) conversations: fn(usize, usize) -> String,
    pub(super) summaries: fn(usize) -> String,
    pub(super) facts: fn(usize) -> String,
    pub(super) audit: fn(usize) -> String,
    /// Questions recorded to compare models.
    pub(super) recorded: fn(usize) -> String,
    pub(super) choice: &'static str,
    pub(super) tokens_used: &'static str,
    pub(super) forgotten: &'static str,
    pub(super) nothing_kept: &'static str,
    pub(super) quoted_in: fn(usize) -> String,
    pub(super) still_answered: fn(usize) -> String,
    /// A headline and the list below it.
    pub(super) kept: &'static [&'static str; 4],
    pub(super) forget_again: &'static str,
    /// Questions with their answers, so that replies to the answers have context.
    pub(super) kept_for_replies: fn(usize) -> String,
    pub(super) exported: fn(&str) -> String,
    pub(super) export_again: &'static str,

    pub(super) memories: &'static str,
    pub(super) memories_how: &'static str,
    pub(super) summarised: &'static str,
    pub(super) summarised_how: &'static str,
    pub(super) memories_more: fn(usize) -> String,
    pub(super) no_memories: &'static str,
    /// For a new fact, and for a known one.
    pub(super) remembered: [&'static str; 2],
    pub(super) remember_what: &'static str,
    pub(super) remember_off: &'static str,
    pub(super) remember_too_long: fn(usize) -> String,
    pub(super) remember_full: fn(usize) -> String,
    pub(super) remember_no_room: &'static str,
    pub(super) fact_forgotten: &'static str,
    pub(super) no_such_fact: &'static str,
    pub(super) memory_away: &'static str,

    pub(super) link_code: fn(&str) -> String,
    pub(super) linked: fn(&str) -> String,
    pub(super) unlinked: &'static str,
    pub(super) link_refused: fn(LinkRefusal) -> &'static str,

    pub(super) switch: &'static str,
    pub(super) voice: fn(VoiceReply) -> &'static str,
    pub(super) voice_notice: fn(&VoiceNotice<'_>) -> String,

    pub(super) default_answers: fn(&str) -> String,
    pub(super) chose: fn(&str) -> String,
    pub(super) choice_gone: fn(&str) -> String,
    pub(super) no_other: &'static str,
    pub(super) can_choose: &'static str,
    pub(super) default_mark: &'static str,
    pub(super) model_chosen: fn(&str) -> String,
    pub(super) may_be_lost: &'static str,
    pub(super) model_default: fn(&str) -> String,
    pub(super) no_such_model: fn(&str, &str) -> String,

    /// The description of the option of `/settings`.
    pub(super) change: &'static str,
    /// The headline of all settings, and the way to change them.
    pub(super) settings: [&'static str; 2],
    /// Marks of values: not set, the operator's default, for this place only, fixed by the operator.
    pub(super) marks: [&'static str; 4],
    /// The setting, its value and whether it is for one place only.
    pub(super) setting_changed: fn(&str, &str, bool) -> String,
    pub(super) setting_reset: fn(&str, bool) -> String,
    pub(super) setting_unknown: fn(&str) -> String,
    pub(super) setting_wrong: fn(&str, &str) -> String,
    pub(super) setting_closed: fn(&str) -> String,
    pub(super) setting_not_served: fn(&str, &str) -> String,

    /// The member, `None` for the caller; messages and tokens, each with their limit; the length of the window.
    pub(super) window: fn(Option<&str>, [&str; 2], [&str; 2], &str) -> String,
    /// The scope of an account, how much is used and allowed with its unit, the length of its window.
    pub(super) account: fn(Scope, [&str; 2], &str) -> String,
    /// So many messages; so many tokens; so many calls.
    pub(super) amounts: [&'static str; 3],
    pub(super) exempt: &'static str,
    pub(super) accepted: fn(&str) -> String,
    pub(super) standing_unknown: &'static str,
    /// The usage of today, of seven days, in total.
    pub(super) sums: [&'static str; 3],
    pub(super) nothing: &'static str,
    pub(super) tokens: fn(&str) -> String,
    pub(super) for_messages: fn(usize) -> String,
    pub(super) unpriced: &'static str,
    /// The tokens that the provider read from its cache.
    pub(super) cached: fn(&str) -> String,
    /// Headlines for all members' usage today, and for the tools called.
    pub(super) all_today: &'static str,
    pub(super) tools_today: &'static str,
    /// The number of calls of a tool, and of failed ones.
    pub(super) calls: fn(usize, usize) -> String,
    /// The headline of experiments. Answers of an arm; of these, apologies and repaired replies, if any; the median and
    /// the 95th percentile of seconds.
    pub(super) experiments: &'static str,
    pub(super) answers: fn(usize) -> String,
    pub(super) apologies: fn(usize) -> String,
    pub(super) repaired: fn(usize) -> String,
    pub(super) took: fn(&str, &str) -> String,

    pub(super) down: fn(&str, &str) -> String,
    pub(super) rejected: fn(&str) -> String,
    pub(super) all_up: &'static str,
    pub(super) up_for: &'static str,
    pub(super) configuration: &'static str,
    pub(super) shards: &'static str,
    pub(super) connected: fn(usize, usize) -> String,
    pub(super) models: &'static str,
    pub(super) left_alone: fn(&str) -> String,
    pub(super) store: &'static str,
    pub(super) store_works: &'static str,
    pub(super) store_fails: &'static str,
    pub(super) turns: &'static str,
    pub(super) turns_so_far: fn(usize, &str) -> String,
    pub(super) in_use: &'static str,
    pub(super) queues: &'static str,
    pub(super) empty: &'static str,
    pub(super) restarts: &'static str,
    pub(super) none: &'static str,
    pub(super) limits: &'static str,
    pub(super) limits_are: fn(&str, &str, &str) -> String,
    pub(super) memory: &'static str,

    pub(super) no_tools: &'static str,
    pub(super) tools: &'static str,
    pub(super) without_tools: &'static str,
    pub(super) own_tools: &'static str,
    pub(super) resources: &'static str,
    pub(super) no_resources: &'static str,
    pub(super) not_listed: &'static str,
    pub(super) held_back: fn(&str) -> String,
    pub(super) list_verified: fn(&str) -> String,
    pub(super) more_names: fn(&str, usize) -> String,
    pub(super) no_lists: &'static str,
    pub(super) reading_lists: fn(usize) -> String,
    pub(super) nothing_waits: &'static str,
    pub(super) waiting: &'static str,
    /// The tool, place, requester, end.
    pub(super) waits: fn(&str, &str, &str, &str) -> String,
    pub(super) nothing_allowed: &'static str,
    pub(super) allowed: &'static str,
    /// The id, tool, place, member (`None`: all members), end.
    pub(super) allows: fn(&str, &str, &str, Option<&str>, &str) -> String,
    pub(super) withdrawn: fn(&str) -> String,
    pub(super) no_such_allowance: fn(&str) -> String,
    pub(super) refreshed: fn(&str) -> String,

    pub(super) help: &'static str,
    pub(super) help_alone: &'static str,
    pub(super) help_direct: &'static str,
    pub(super) help_commands: &'static str,
    pub(super) help_kept: &'static str,
}
