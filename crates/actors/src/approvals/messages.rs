//! The messages of questions, and their replacement after the decision.

use std::time::Duration;

use super::{Approvals, ApprovalsEvent, ApprovalsState, AskState, Open, RequestFailure};
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use domain::ending::Unposted;
use domain::gate::{ApprovalDecision, Gate, GateId};
use domain::happening::Happening;
use domain::ids::MessageId;
use domain::layout::lay_out;
use domain::notice::gate as words;
use domain::outgoing::{Capabilities, Medium, Outgoing, Piece};
use ports::PostRequest;

/// The number of digits of a gate's id in the nonce of its message.
const NONCE_DIGITS: usize = 20;
/// The maximum time for posting a question: longer than the retries of the outbox.
const POST_TIMEOUT: Duration = Duration::from_secs(900);
/// The maximum time for replacing a decided question.
const REWRITE_TIMEOUT: Duration = Duration::from_secs(60);

impl Approvals {
    /// Asks: by an event for all readers, and by a message if the door shows turns as messages.
    pub(super) fn ask(&self, ctx: &mut ActorContext<Approvals>, open: &mut Open) {
        let gate = &open.case.gate;
        self.ways.observers.tell(&Happening::GateShown(gate));
        if self.ways.outboxes.medium(&gate.place.door) == Medium::Replies {
            open.asking = AskState::Asked(None);
            return;
        }
        // The message is not a reply: a reply to the question of a turn is its answer.
        let outgoing = Outgoing {
            place: gate.place.clone(),
            reply_to: None,
            parts: words::asking(gate),
            apology: false,
            spent: None,
            private: false,
        };
        let name = format!("g{}", &gate.id.as_str()[..NONCE_DIGITS]);
        let outbox = self.ways.outboxes.of(&gate.place.door).clone();
        let (there, back) = (gate.id.clone(), gate.id.clone());
        open.asking = AskState::Sent;
        ctx.task(
            async move {
                let post = |reply| OutboxMsg::Post { name, outgoing, reply };
                let result = match outbox.call(post, POST_TIMEOUT).await {
                    // The last message has the buttons.
                    Ok(Ok(delivery)) => delivery.posted.into_iter().next_back().ok_or(RequestFailure::Never),
                    Ok(Err(Unposted::Busy)) | Err(_) => Err(RequestFailure::Again),
                    Ok(Err(_)) => Err(RequestFailure::Never),
                };
                ApprovalsEvent::Posted(there, result)
            },
            move |_| ApprovalsEvent::Posted(back, Err(RequestFailure::Again)),
        );
    }

    /// Handles the result of posting a question.
    pub(super) fn posted(
        &self,
        ctx: &mut ActorContext<Approvals>,
        state: &mut ApprovalsState,
        id: &GateId,
        result: Result<MessageId, RequestFailure>,
    ) {
        let Some(open) = state.open.get_mut(id) else {
            if let (Some((gate, decision)), Ok(message)) = (state.closed.remove(id), result) {
                self.rewrite(ctx, &gate, &message, &decision);
            }
            return;
        };
        match result {
            Ok(message) => {
                let turn = open.case.gate.turn.clone();
                // If the journal refuses this, the next process asks again under the same nonce.
                self.journal.tell(JournalMsg::Asked(turn, id.clone(), message.clone()));
                open.asking = AskState::Asked(Some(message));
            }
            Err(RequestFailure::Again) => open.asking = AskState::Due,
            Err(RequestFailure::Never) => {
                open.asking = AskState::Asked(None);
                // A task goes on without its message.
                if open.case.decision.is_none() && open.case.gate.subject.task().is_none() {
                    let decision = open.case.decision.insert(ApprovalDecision::NotAsked).clone();
                    self.record(ctx, open, decision, None);
                }
            }
        }
    }

    /// Replaces a question by its decision.
    pub(super) fn rewrite(
        &self,
        ctx: &mut ActorContext<Approvals>,
        gate: &Gate,
        message: &MessageId,
        decision: &ApprovalDecision,
    ) {
        let outbox = self.ways.outboxes.of(&gate.place.door).clone();
        let (place, message) = (gate.place.clone(), message.clone());
        let piece = shown(gate, decision);
        ctx.background(async move {
            let request = PostRequest::Edit { place, message, piece };
            // A message that cannot be edited stays; its buttons no longer decide anything.
            let _ = outbox.call(|reply| OutboxMsg::Read(request, reply), REWRITE_TIMEOUT).await;
        });
    }
}

/// The single message that shows a decision.
fn shown(gate: &Gate, decision: &ApprovalDecision) -> Piece {
    /// The length that every platform shows in one message.
    const DECIDED_CHARS: usize = 1_900;
    let pieces = lay_out(&words::decided(gate, decision), &Capabilities::text_only(DECIDED_CHARS));
    pieces.into_iter().next().unwrap_or_default()
}
