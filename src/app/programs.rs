//! The doors of programs over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;

use crate::app::console::LiveConsole;
use actors::observation::turn_events::TurnEvents;
use actors::observation::vitals::TreeVitals;
use actors::services::basics::Basics;
use actors::services::embeddings::Meter;
use actors::services::file_texts::FileReader;
use actors::services::in_force::InForce;
use actors::services::preferences::PreferenceKeeper;
use actors::services::standings::Standings;
use actors::services::toolbox::Toolbox;
use actors::services::usable_tools::UsableTools;
use actors::wiring::Handles;
use domain::lineage::Identity;
use ports::{Documents, Limiter, PromptSections};
use settings::Settings;
use speech::Speech;
use terminal::sessions::Sessions;
use web::model_api::{self, ModelApi};

/// The time by which the timeout of a request for an answer exceeds the longest turn.
const AFTER_TURN: Duration = Duration::from_secs(60);

/// The limits on the requests of programs.
fn bounds(settings: &Settings) -> model_api::Bounds {
    model_api::Bounds { answer: settings.turn.lease() + AFTER_TURN, at_once: settings.http.key_concurrent }
}

/// The parts that programs reach over HTTP.
pub(crate) struct ProgramParts<'a> {
    pub basics: &'a Basics,
    pub in_force: &'a Arc<InForce>,
    pub handles: &'a Handles,
    pub events: &'a TurnEvents,
    pub prompts: &'a Arc<dyn PromptSections>,
    /// The settings of members.
    pub settings: &'a Arc<PreferenceKeeper>,
    pub sessions: &'a Arc<Sessions>,
    pub vitals: &'a Arc<TreeVitals>,
    pub toolbox: &'a Arc<Toolbox>,
    pub limiter: &'a Arc<dyn Limiter>,
    /// Reads documents.
    pub documents: Arc<dyn Documents>,
    /// The name of this program among agents.
    pub us: Identity,
}

/// The doors of programs over HTTP: one with the API of a model, one with sessions.
pub(crate) fn programs(parts: ProgramParts<'_>, speech: Speech) -> Router {
    let ProgramParts { in_force, handles, events, prompts, settings, sessions, vitals, toolbox, limiter, .. } = parts;
    let (documents, us) = (parts.documents, parts.us);
    let Basics { live, store, clock, dice } = parts.basics;
    let api = ModelApi::new(model_api::Parts {
        intake: Arc::new(handles.intake()),
        events: Arc::new(events.clone()),
        models: Arc::clone(in_force) as _,
        meter: Arc::new(Meter {
            live: live.clone(),
            limiter: Arc::clone(limiter),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            dispatcher: handles.dispatcher(),
        }),
        files: Arc::new(FileReader::new(live.clone(), documents)),
        store: Arc::clone(store),
        clock: Arc::clone(clock),
        dice: Arc::clone(dice),
        bounds: bounds(&live.now().settings),
    });
    let (store, rate_limiter) = (Arc::clone(store), handles.rate_limiter());
    let usage = Standings { live: live.clone(), store: Arc::clone(&store), clock: Arc::clone(clock), rate_limiter };
    let sessions = terminal::routes::router(terminal::routes::Parts {
        us: Arc::new(us),
        sessions: Arc::clone(sessions),
        intake: Arc::new(handles.intake()),
        events: Arc::new(events.clone()),
        open_turns: Arc::new({
            let events = events.clone();
            move |place| events.open_turns(place)
        }),
        models: Arc::clone(in_force) as _,
        tools: Arc::new(UsableTools { live: live.clone(), toolbox: Arc::clone(toolbox) }),
        vitals: Arc::clone(vitals) as _,
        usage: Arc::new(usage),
        console: Arc::new(LiveConsole { live: live.clone(), store }),
        prompts: Arc::clone(prompts),
        settings: Arc::clone(settings) as _,
        speech,
    });
    model_api::router(Arc::new(api)).merge(sessions)
}
