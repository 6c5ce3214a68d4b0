//! The arms of experiments: the choice for a turn, the votes of members, and the table of figures.

use std::sync::LazyLock;

use crate::services::locks::Locks;
use crate::services::running::Running;
use domain::arm_figures::{self, ArmFigures};
use domain::experiment::{PLACE_PROMPTS, Subject, Trial};
use domain::ids::MessageId;
use domain::incoming::Reaction;
use domain::keys::experiments as keys;
use domain::turn::{Effort, Turn};
use ports::{Store, Write};

/// The maximum number of counters that one table reads.
const ROWS_MAX: usize = 10_000;

/// Puts the arm of the first experiment that includes the turn's person into force. `model_is_chosen`: the person or
/// the community has chosen a model. Returns `None` for a turn outside of all experiments.
pub(crate) fn choose(running: &Running, turn: &mut Turn, model_is_chosen: bool) -> Option<Trial> {
    let rows = running.models.rows();
    let policy = &mut turn.policy;
    for experiment in &running.settings.llm.experiments {
        let Some(arm) = experiment.arm_of(turn.linked.lead(&turn.person)) else { continue };
        match experiment.subject {
            Subject::Models => {
                let offered = rows.iter().any(|row| row.key == arm.name)
                    && (policy.among.is_empty() || policy.among.contains(&arm.name));
                if model_is_chosen || policy.model.is_some() || !offered {
                    continue;
                }
                policy.model = Some(arm.name.clone());
            }
            Subject::Profiles => {
                if policy.profile.is_some() {
                    continue;
                }
                policy.profile = Some(arm.name.clone()).filter(|name| name != PLACE_PROMPTS);
            }
        }
        return Some(experiment.trial(arm));
    }
    None
}

/// Returns the writes with which a reaction to one of these messages finds the arm of its answer.
pub(crate) fn index(effort: &Effort, posted: &[MessageId]) -> Vec<Write> {
    let Some(value) = effort.trial.as_ref().and_then(|trial| serde_json::to_string(trial).ok()) else {
        return Vec::new();
    };
    let put = |message| Write::Put { key: keys::trial(message), value: value.clone(), ttl: Some(keys::TRIAL_TTL) };
    posted.iter().map(put).collect()
}

/// Counts a vote on an answer of an experiment: the first of each person on each message.
pub(crate) async fn count_vote(store: &dyn Store, reaction: &Reaction) {
    /// The votes of one person on one message are counted one after the other.
    static VOTES: LazyLock<Locks> = LazyLock::new(Locks::default);
    let Some(vote) = reaction.vote else { return };
    let Some(stored) = store.get(&keys::trial(&reaction.message)).await else { return };
    let Ok(trial) = serde_json::from_str::<Trial>(&stored) else { return };
    let key = keys::vote(&reaction.by, &reaction.message);
    let _voting = VOTES.lock(&key).await;
    if store.get(&key).await.is_some() {
        return;
    }
    let mark = Write::Put { key, value: String::new(), ttl: Some(keys::TRIAL_TTL) };
    drop(store.write(vec![mark, arm_figures::voted(&trial, vote).into()]));
}

/// Returns the figures of all arms. The store bounds the read.
pub(crate) async fn table(store: &dyn Store) -> Vec<(Trial, ArmFigures)> {
    arm_figures::figures(&store.scan(keys::PREFIX, ROWS_MAX).await.part())
}
