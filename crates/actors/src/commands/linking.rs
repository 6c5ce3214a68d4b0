//! The commands about links of accounts: `/link` and `/unlink`.

use super::CommandParts;
use crate::services::links::Linker;
use domain::command::{CODE, Command};
use domain::notice::commands as words;
use domain::open_to::OpenTo;
use domain::people::LinkRefusal;

/// Shows the caller a code or, with a code from another door, links the two accounts.
pub(super) async fn link(parts: &CommandParts, command: &Command) -> String {
    let (account, locale) = (&command.caller.person, command.caller.locale());
    let linker = Linker { basics: parts.basics.clone() };
    let outcome = async {
        if parts.basics.live.now().settings.members.linking != OpenTo::Members {
            return Err(LinkRefusal::Closed);
        }
        match command.option(CODE).filter(|code| !code.is_empty()) {
            None => Ok(words::link_code(&linker.new_code(account).await?, locale)),
            Some(code) => Ok(words::linked(&linker.redeem(account, code).await?, locale)),
        }
    };
    outcome.await.unwrap_or_else(|refusal| words::link_refused(refusal, locale).to_owned())
}

/// Removes the links of the caller's account, unless that would end a restriction.
pub(super) async fn unlink(parts: &CommandParts, command: &Command) -> String {
    let (account, locale) = (&command.caller.person, command.caller.locale());
    let linked = parts.basics.live.linked(account);
    let running = parts.basics.live.now();
    let outcome = if linked.accounts().iter().any(|account| parts.restricted.holds_anywhere(&running, account)) {
        Err(LinkRefusal::Restricted)
    } else {
        Linker { basics: parts.basics.clone() }.remove(account).await
    };
    match outcome {
        Ok(()) => words::unlinked(locale).to_owned(),
        Err(refusal) => words::link_refused(refusal, locale).to_owned(),
    }
}
