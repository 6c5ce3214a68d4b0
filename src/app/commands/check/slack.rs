//! Checks the Slack account: both tokens, the scopes, and Socket Mode.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::report::{CheckStatus, Report};
use crate::app::doors;
use crate::app::system::SystemClock;
use settings::Settings;
use slack::Slack;
use slack::setup::{APPS, Inspection};

const BOT: &str = "slack bot token";
const APP: &str = "slack app token";
const SCOPES: &str = "slack scopes";

/// The timeout of all requests together.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Checks the account, if both tokens are set.
pub async fn check(settings: &Settings, report: &mut Report) {
    let Some(access) = doors::slack_access(settings) else {
        if settings.slack.bot_token.is_some() != settings.slack.app_token.is_some() {
            let why = "closed: one of SLACK_BOT_TOKEN and SLACK_APP_TOKEN is set, and Slack needs both";
            report.push("slack", CheckStatus::Note, why);
        }
        return;
    };
    let slack = match Slack::new(&access, Arc::new(SystemClock)) {
        Ok(slack) => slack,
        Err(error) => return report.wrong_with("slack", error.to_string()),
    };
    let Ok(Inspection { bot, app }) = timeout(TIMEOUT, slack.inspect()).await else {
        return report.wrong_with("slack", format!("no answer within {} s", TIMEOUT.as_secs()));
    };
    match bot {
        Ok((account, lacking)) => {
            report
                .ok(BOT, format!("accepted; the bot is {} ({}) in {}", account.name, account.user, account.workspace));
            if lacking.is_empty() {
                report.ok(SCOPES, "enough");
            } else {
                let why = "missing; add them at OAuth & Permissions of the app, and install it again";
                report.wrong_with(SCOPES, format!("{} {why}", lacking.join(", ")));
            }
        }
        Err(reason) => {
            report
                .wrong_with(BOT, format!("{reason}; set SLACK_BOT_TOKEN to the token at {APPS} > OAuth & Permissions"));
        }
    }
    match app {
        Ok(()) => report.ok(APP, "accepted; Socket Mode is enabled"),
        Err(reason) => report.wrong_with(
            APP,
            format!(
                "{reason}; set SLACK_APP_TOKEN to an app-level token with the scope connections:write ({APPS} > Basic Information), and enable Socket Mode"
            ),
        ),
    }
}
