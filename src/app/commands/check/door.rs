//! Checks the Discord account: the token, the message content intent, the gateway, the permissions.

use std::time::Duration;

use tokio::time::timeout;

use super::places;
use super::report::{CheckStatus, Report};
use crate::app::doors;
use discord::rest::Rest;
use discord::rest::account::{Account, Content, GUILDS_PAGE, Guilds};
use discord::rest::invite;
use domain::rejection::Rejection;
use ports::PostError;
use settings::Settings;

/// The row about the token.
pub(super) const TOKEN: &str = "discord token";
const CONTENT: &str = "discord message content";
const GATEWAY: &str = "discord gateway";
const PERMISSIONS: &str = "discord permissions";
const INVITE: &str = "discord invite";

/// The timeout of all requests together.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The number of remaining sessions below which frequent restarts may use up the day's sessions.
const FEW_SESSIONS: u32 = 50;
/// The maximum number of communities named in the report.
const NAMED: usize = 5;

/// Checks the account. Each request has the timeout of the REST client, all together have 30 seconds.
pub async fn check(settings: &Settings, report: &mut Report) {
    if timeout(TIMEOUT, ask(settings, report)).await.is_err() {
        report.wrong_with("discord", format!("no answer within {} s", TIMEOUT.as_secs()));
    }
}

async fn ask(settings: &Settings, report: &mut Report) {
    if settings.discord.token.is_none() {
        report.skipped("discord", "not contacted: there is no token");
        return;
    }
    // The text may be another secret.
    if settings.discord.token_mistake().is_some() {
        report.skipped("discord", "not contacted: the token has another form");
        return;
    }
    let rest = match Rest::new(&doors::access(settings)) {
        Ok(rest) => rest,
        Err(error) => return report.wrong_with("discord", error.to_string()),
    };
    match rest.account().await {
        Ok(account) => {
            tell_account(&account, report);
            report.ok(INVITE, invite::address(&account.application, settings.restriction.role.is_some()));
        }
        Err(error) => {
            let rejected = matches!(error, PostError::Rejected { .. });
            return report.wrong_with(if rejected { TOKEN } else { "discord" }, refusal(&error));
        }
    }
    gateway(&rest, report).await;
    let guilds = permissions(&rest, report).await;
    places::check(&rest, settings, &guilds, report).await;
}

fn tell_account(account: &Account, report: &mut Report) {
    report.ok(TOKEN, format!("accepted; the bot is {} (id {})", account.name, account.id));
    match account.content {
        Content::Full => report.ok(CONTENT, "allowed"),
        Content::Limited => {
            report.ok(CONTENT, "enabled; from 100 servers on, Discord must approve it");
        }
        Content::Off => report.wrong_with(
            CONTENT,
            "disabled; enable it in the discord developer portal > Bot > Privileged Gateway Intents > Message Content Intent",
        ),
    }
}

async fn gateway(rest: &Rest, report: &mut Report) {
    match rest.standing().await {
        Ok(standing) => {
            let verdict = match standing.left {
                0 => CheckStatus::Wrong,
                left if left < FEW_SESSIONS => CheckStatus::Note,
                _ => CheckStatus::Ok,
            };
            let (left, total, shards) = (standing.left, standing.total, standing.shards);
            report.push(
                GATEWAY,
                verdict,
                format!("{left} of {total} gateway sessions left for today; Discord recommends {shards} shards"),
            );
        }
        Err(error) => report.wrong_with(GATEWAY, refusal(&error)),
    }
}

/// Reports the bot's missing permissions in its communities, and returns the ids of the communities.
async fn permissions(rest: &Rest, report: &mut Report) -> Vec<String> {
    match rest.guilds().await {
        Ok(guilds) => {
            tell_permissions(&guilds, report);
            guilds.ids
        }
        Err(error) => {
            report.wrong_with(PERMISSIONS, refusal(&error));
            Vec::new()
        }
    }
}

fn tell_permissions(guilds: &Guilds, report: &mut Report) {
    if guilds.seen == 0 {
        let why = "the bot is in no server yet; open the invite address above in a browser";
        return report.push(PERMISSIONS, CheckStatus::Note, why);
    }
    if guilds.lacking.is_empty() {
        let more = if guilds.seen == GUILDS_PAGE { " looked at" } else { "" };
        return report.ok(PERMISSIONS, format!("enough in {} servers{more}", guilds.seen));
    }
    let named = guilds.lacking.iter().take(NAMED);
    let named: Vec<String> =
        named.map(|lacking| format!("{} (lacks {})", lacking.guild, lacking.permissions.join(", "))).collect();
    let more = if guilds.lacking.len() > NAMED { ", and more" } else { "" };
    let why = format!(
        "{} of {} servers lack permissions, unless single channels grant them: {}{more}",
        guilds.lacking.len(),
        guilds.seen,
        named.join("; ")
    );
    report.wrong_with(PERMISSIONS, why);
}

fn refusal(error: &PostError) -> String {
    match error {
        PostError::Rejected { reason: Rejection::Credentials, .. } => {
            "rejected; set DISCORD_BOT_TOKEN to the token shown in the discord developer portal > Bot > Reset Token"
                .to_owned()
        }
        PostError::Unsure(why) | PostError::Transient(why) => {
            format!("{why}; check the network, its proxy or firewall, and DISCORD_API_URL")
        }
        error => error.to_string(),
    }
}
