//! The judge of a campaign. It knows what members wrote and saw, and nothing of the program.

use std::collections::{BTreeMap, BTreeSet};

/// A mention of the bot. Numbers are identities; times are milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Mention {
    pub id: u64,
    /// The member and the channel: questions of one lane are answered in order.
    pub lane: (u64, u64),
    pub at: u64,
}

/// A visible message of the bot that replies to a mention.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    pub to: u64,
    pub at: u64,
    pub apology: bool,
}

/// The judgement. Identities of mentions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub mentions: usize,
    pub apologies: usize,
    /// Mentions without a visible answer or apology.
    pub lost: Vec<u64>,
    /// Mentions with several.
    pub doubled: Vec<u64>,
    /// Mentions that were answered after a later mention of their lane, while no process ended or was stopped.
    pub disordered: Vec<u64>,
    /// The same, over the end or a stop of a process. Their order is not promised.
    pub overtaken: usize,
}

/// Judges what members saw. `replies` are in the order of their channels; `interruptions` are
/// the times at which a process ended, or was ready after a stop.
pub fn judge(mentions: &[Mention], replies: &[Reply], interruptions: &[u64]) -> Verdict {
    let by_id: BTreeMap<u64, &Mention> = mentions.iter().map(|mention| (mention.id, mention)).collect();
    let mut verdict = Verdict { mentions: mentions.len(), ..Verdict::default() };
    let mut counts: BTreeMap<u64, usize> = by_id.keys().map(|id| (*id, 0)).collect();
    // The newest answered mention of each lane.
    let mut newest: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut late = BTreeSet::new();
    for reply in replies {
        let Some(mention) = by_id.get(&reply.to) else { continue };
        *counts.entry(reply.to).or_default() += 1;
        verdict.apologies += usize::from(reply.apology);
        let newest = newest.entry(mention.lane).or_default();
        if *newest > mention.id && late.insert(mention.id) {
            if interruptions.iter().any(|time| (mention.at..=reply.at).contains(time)) {
                verdict.overtaken += 1;
            } else {
                verdict.disordered.push(mention.id);
            }
        }
        *newest = (*newest).max(mention.id);
    }
    verdict.lost = counts.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    verdict.doubled = counts.iter().filter(|(_, count)| **count > 1).map(|(id, _)| *id).collect();
    verdict
}

#[test]
fn the_judge_of_a_campaign_finds_each_broken_promise() {
    let mention = |id, member| Mention { id, lane: (member, 1), at: id * 10 };
    let reply = |to, at, apology| Reply { to, at, apology };
    let mentions = [mention(1, 7), mention(2, 7), mention(3, 8), mention(4, 8), mention(5, 9)];
    let good = [reply(1, 11, false), reply(2, 21, true), reply(3, 31, false), reply(4, 41, false), reply(5, 51, false)];
    let fine = Verdict { mentions: 5, apologies: 1, ..Verdict::default() };
    assert_eq!(judge(&mentions, &good, &[]), fine);

    let lost = Verdict { mentions: 5, apologies: 1, lost: vec![5], ..Verdict::default() };
    assert_eq!(judge(&mentions, &good[..4], &[]), lost);
    let doubled = Verdict { mentions: 5, apologies: 1, doubled: vec![3], ..Verdict::default() };
    assert_eq!(judge(&mentions, &[&good[..], &[reply(3, 60, false)]].concat(), &[60]).doubled, doubled.doubled);
    let swapped = [good[1], reply(1, 25, false), good[2], good[3], good[4]];
    let verdict = judge(&mentions, &swapped, &[]);
    assert_eq!((verdict.disordered, verdict.overtaken), (vec![1], 0));
    let verdict = judge(&mentions, &swapped, &[15]);
    assert_eq!((verdict.disordered, verdict.overtaken), (Vec::new(), 1));
}
