//! Fault injection: the action that replaces a handler, and the delivery of injected faults to the mailbox.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ractor::{ActorRef, Message};
use tokio::sync::mpsc;

use super::{Crash, LOOK_AGAIN, STREAMED_MAX};
use crate::runtime::handle::{Envelope, Slot, Stats};
use ports::Fault;

/// Performs the fault.
pub(super) async fn fail(fault: Fault) -> Result<(), Crash> {
    match fault {
        Fault::Panic => panic!("injected panic"),
        Fault::Error => Err("injected error".into()),
        Fault::Hang => std::future::pending().await,
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
    }
}

/// Puts the faults injected for an actor into its mailbox, until this life of the actor ends.
pub(super) async fn follow<M, E>(actor: ActorRef<Envelope<M, E>>, stats: Arc<Stats>, mut ordered: mpsc::Receiver<Fault>)
where
    Envelope<M, E>: Message,
{
    while let Some(fault) = ordered.recv().await {
        while stats.depth.load(Ordering::Relaxed) >= STREAMED_MAX {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        if actor.cast(Envelope::Fault(fault, Slot::take(&stats))).is_err() {
            return;
        }
    }
}
