//! Ownership of turns: the ranges of turns that a process owns, and the fencing token under which it writes.
//!
//! The store issues a new token with each change of owner and keeps the newest token of each range. It rejects writes
//! under an older token, so a process that was replaced without noticing can no longer change a turn.
//! Source: Martin Kleppmann, <https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>, "Making the
//! lock safe with fencing".

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ids::Door;

/// The most ranges into which a bot's work can be divided.
pub const RANGES_MAX: u32 = 256;

/// A range of turns with one owner at a time.
///
/// Tokens of two ranges are not comparable, even if the ranges overlap: before a door is divided in another way, the
/// terms of the previous division must end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range {
    /// All turns of a door.
    Door(Door),
    /// The turns of some communities of a door.
    Shards(Door, Shards),
}

/// The ranges from `first` to `last` of a divided door, not the shards of Discord. A turn belongs to the range of its
/// community, see [`Portion::of_guild`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shards {
    /// The number of the first range.
    pub first: u32,
    /// The number of the last range; at least `first`.
    pub last: u32,
    /// The number of ranges into which the door is divided; greater than `last`.
    pub of: u32,
}

impl Range {
    /// Returns the door of the range.
    #[must_use]
    pub const fn door(&self) -> &Door {
        match self {
            Self::Door(door) | Self::Shards(door, _) => door,
        }
    }

    /// True if this range contains every turn of the other range. Shards of different divisions are not comparable.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.door() == other.door()
            && match (self, other) {
                (Self::Door(_), _) => true,
                (Self::Shards(..), Self::Door(_)) => false,
                (Self::Shards(_, mine), Self::Shards(_, other)) => {
                    mine.of == other.of && mine.first <= other.first && other.last <= mine.last
                }
            }
    }
}

impl Range {
    /// True if both ranges belong to one division of the door, so that a turn belongs to at most one of two different
    /// ranges.
    #[must_use]
    pub fn is_of_one_division_with(&self, other: &Self) -> bool {
        self.of() == other.of()
    }

    /// True if the turns of this community belong to the range.
    #[must_use]
    pub fn has_guild(&self, guild: Option<&str>) -> bool {
        match self {
            Self::Door(_) => true,
            Self::Shards(_, Shards { first, last, of }) => (*first..=*last).contains(&Portion::of_guild(guild, *of)),
        }
    }

    const fn of(&self) -> u32 {
        match self {
            Self::Door(_) => 1,
            Self::Shards(_, shards) => shards.of,
        }
    }
}

/// One portion of the bot's work: one range of each door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// The number of the range, from zero.
    pub number: u32,
    /// The number of ranges; greater than `number`.
    pub of: u32,
}

impl Portion {
    /// The work of a process that does all of it.
    pub const WHOLE: Self = Self { number: 0, of: 1 };

    /// True if the work is not divided.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.of <= 1
    }

    /// Returns the name of the range, such as `0/2`; `None` if the work is not divided.
    #[must_use]
    pub fn range_name(self) -> Option<String> {
        (!self.is_whole()).then(|| self.to_string())
    }

    /// True for the range that also does the work that only one process may do: timers, reports, the registration of
    /// commands, and doors whose platform does not divide its events.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.number == 0
    }

    /// Returns the range of this door.
    #[must_use]
    pub const fn range(self, door: Door) -> Range {
        if self.is_whole() {
            return Range::Door(door);
        }
        Range::Shards(door, Shards { first: self.number, last: self.number, of: self.of })
    }

    /// True if this portion owns the connection with this number. Connections are distributed in turn, so each range has
    /// some, for any number of them.
    #[must_use]
    pub const fn has_shard(self, shard: u32) -> bool {
        self.is_whole() || shard % self.of == self.number
    }

    /// True if this portion has the turns of this community.
    #[must_use]
    pub fn has_guild(self, guild: Option<&str>) -> bool {
        Self::of_guild(guild, self.of) == self.number
    }

    /// Returns the range of a community in a division into `of` ranges. The bits above the 22nd of a numeric id select
    /// the platform's connection (<https://discord.com/developers/docs/events/gateway#sharding>); because the number of
    /// connections is a multiple of `of` ([`Self::whole_shards`]), they also select the range, for any such number. All
    /// other turns, as those of direct conversations, belong to the first range.
    #[must_use]
    pub fn of_guild(guild: Option<&str>, of: u32) -> u32 {
        let number = guild.and_then(|guild| guild.parse::<u64>().ok()).unwrap_or(0) >> 22;
        u32::try_from(number % u64::from(of.max(1))).unwrap_or(0)
    }

    /// Returns the least number of connections from `least` up of which each range has as many as any other.
    #[must_use]
    pub const fn whole_shards(self, least: u32) -> u32 {
        let of = if self.of == 0 { 1 } else { self.of };
        let least = if least == 0 { 1 } else { least };
        least.div_ceil(of).saturating_mul(of)
    }
}

/// The portions of the bot's work that one process does. A process that does all of it, or a range of it, has one; it
/// takes over further ranges of processes that end, and gives ranges to processes that start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portions {
    /// The number of ranges.
    pub of: u32,
    /// One bit for each range of [`RANGES_MAX`].
    held: [u64; 4],
}

const _: () = assert!(RANGES_MAX == 4 * u64::BITS);

impl Portions {
    /// The work of a process that does all of it.
    pub const WHOLE: Self = Self { of: 1, held: [1, 0, 0, 0] };

    /// Returns no portion of a division into `of` ranges, at most [`RANGES_MAX`].
    #[must_use]
    pub const fn none(of: u32) -> Self {
        Self { of, held: [0; 4] }
    }

    /// Returns these portions and this one. A number outside of the division is ignored.
    #[must_use]
    pub const fn with(mut self, number: u32) -> Self {
        if number < self.of && number < RANGES_MAX {
            self.held[(number / u64::BITS) as usize] |= 1 << (number % u64::BITS);
        }
        self
    }

    /// Returns these portions without this one.
    #[must_use]
    pub const fn without(mut self, number: u32) -> Self {
        if number < RANGES_MAX {
            self.held[(number / u64::BITS) as usize] &= !(1 << (number % u64::BITS));
        }
        self
    }

    /// True if the range with this number is among them.
    #[must_use]
    pub const fn has(self, number: u32) -> bool {
        number < RANGES_MAX && self.held[(number / u64::BITS) as usize] & 1 << (number % u64::BITS) != 0
    }

    /// Returns the number of these portions.
    #[must_use]
    pub fn count(self) -> u32 {
        self.held.iter().map(|bits| bits.count_ones()).sum()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.count() == 0
    }

    /// Returns each portion, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Portion> {
        (0..self.of).filter(move |number| self.has(*number)).map(move |number| Portion { number, of: self.of })
    }

    /// True if the work is not divided.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.of <= 1
    }

    /// True if the first range is among them: see [`Portion::is_first`].
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.has(0)
    }

    /// See [`Portion::whole_shards`].
    #[must_use]
    pub const fn whole_shards(self, least: u32) -> u32 {
        Portion { number: 0, of: self.of }.whole_shards(least)
    }

    /// True if one of them owns the connection with this number.
    #[must_use]
    pub const fn has_shard(self, shard: u32) -> bool {
        let of = if self.of == 0 { 1 } else { self.of };
        self.has(shard % of)
    }

    /// True if one of them has the turns of this community.
    #[must_use]
    pub fn has_guild(self, guild: Option<&str>) -> bool {
        self.has(Portion::of_guild(guild, self.of))
    }

    /// Returns the range of a door to which a turn of this community belongs, also if it is not among these.
    #[must_use]
    pub fn range_of(self, door: Door, guild: Option<&str>) -> Range {
        Portion { number: Portion::of_guild(guild, self.of), of: self.of }.range(door)
    }

    /// Returns the names of the ranges, such as `0/2` or `0,2/4`; `None` if the work is not divided.
    #[must_use]
    pub fn range_name(self) -> Option<String> {
        (!self.is_whole()).then(|| self.to_string())
    }
}

impl From<Portion> for Portions {
    fn from(portion: Portion) -> Self {
        Self::none(portion.of).with(portion.number)
    }
}

impl fmt::Display for Portions {
    /// Writes the numbers and the number of ranges, such as `0,2/4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, portion) in self.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "," }, portion.number)?;
        }
        write!(f, "/{}", self.of)
    }
}

impl fmt::Display for Portion {
    /// Writes the number and the number of ranges, such as `0/2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Door(door) => door.fmt(f),
            Self::Shards(door, Shards { first, last, of }) => write!(f, "{door}/{first}-{last}/{of}"),
        }
    }
}

/// The text is not a range. Valid texts name a door such as `discord`, or shards of one such as `discord/0-3/16`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no range of turns")]
pub struct BadRange(String);

impl FromStr for Range {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = || BadRange(text.to_owned());
        let mut parts = text.split('/');
        let door = parts.next().and_then(Door::named).ok_or_else(bad)?;
        let Some(numbers) = parts.next() else { return Ok(Self::Door(door)) };
        let read = |number: &str| number.parse::<u32>().map_err(|_| bad());
        let (first, last) = numbers.split_once('-').ok_or_else(bad)?;
        let shards = Shards { first: read(first)?, last: read(last)?, of: read(parts.next().ok_or_else(bad)?)? };
        let valid = parts.next().is_none() && shards.first <= shards.last && shards.last < shards.of;
        if valid { Ok(Self::Shards(door, shards)) } else { Err(bad()) }
    }
}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The fencing token of one term of ownership. Each owner of a range has a higher token than the previous owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// The token of a process that writes before it has acquired one, because its store is unavailable.
    pub const NONE: Self = Self(0);

    /// Returns the token of the next owner.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Parses the newest token of a range as stored. A missing or damaged value counts as [`Self::NONE`].
    #[must_use]
    pub fn stored(text: Option<&str>) -> Self {
        text.and_then(|text| text.parse().ok()).map_or(Self::NONE, Self)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The term of one process as the owner of a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The range of turns owned.
    pub range: Range,
    /// The fencing token of the term.
    pub token: FencingToken,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: Door = Door::new("discord");

    fn shards(first: u32, last: u32, of: u32) -> Range {
        Range::Shards(DOOR, Shards { first, last, of })
    }

    #[test]
    fn a_range_is_read_from_its_text() {
        for range in [Range::Door(DOOR), shards(0, 3, 16), shards(7, 7, 8)] {
            assert_eq!(range.to_string().parse(), Ok(range.clone()), "{range}");
            let json = serde_json::to_string(&range).unwrap();
            assert_eq!(serde_json::from_str::<Range>(&json).unwrap(), range);
        }
        assert_eq!(shards(0, 3, 16).to_string(), "discord/0-3/16");
        for text in ["", "discord/", "discord/1", "discord/2-1/4", "discord/0-4/4", "discord/0-1/2/3", "discord/0-x/2"]
        {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_door_contains_its_shards_and_shards_contain_their_parts() {
        let (door, other) = (Range::Door(DOOR), Range::Door(Door::new("terminal")));
        assert!(door.contains(&door) && door.contains(&shards(0, 3, 16)) && !door.contains(&other));
        assert!(shards(0, 3, 16).contains(&shards(1, 2, 16)) && shards(1, 2, 16).contains(&shards(1, 2, 16)));
        assert!(!shards(0, 3, 16).contains(&shards(3, 4, 16)) && !shards(0, 3, 16).contains(&shards(1, 2, 8)));
        assert!(!shards(0, 3, 16).contains(&door));
    }

    #[test]
    fn a_community_has_one_range_for_any_number_of_connections() {
        for of in [1_u32, 2, 3, 16] {
            let portions = (0..of).map(|number| Portion { number, of });
            for id in (0..200_u64).map(|n| n * 7_777_777_777) {
                let guild = id.to_string();
                let owners: Vec<_> = portions.clone().filter(|portion| portion.has_guild(Some(&guild))).collect();
                assert_eq!(owners.len(), 1, "{id}");
                assert!(owners[0].range(DOOR).has_guild(Some(&guild)));
                for least in 0..40 {
                    let total = owners[0].whole_shards(least);
                    assert!(total >= least && total >= of && total < least + of + 1 && total % of == 0);
                    let shard = u32::try_from((id >> 22) % u64::from(total)).unwrap();
                    assert!(owners[0].has_shard(shard), "shard {shard} of {total}");
                }
            }
        }
        assert_eq!(Portion { number: 1, of: 2 }.range(DOOR), shards(1, 1, 2));
        assert_eq!(Portion::WHOLE.range(DOOR), Range::Door(DOOR));
        for guild in [None, Some("T0123"), Some("")] {
            assert_eq!(Portion::of_guild(guild, 4), 0, "{guild:?}");
        }
    }

    #[test]
    fn a_process_has_any_portions_of_one_division() {
        let two = Portions::none(200).with(3).with(199).with(200);
        assert_eq!((two.count(), two.to_string().as_str()), (2, "3,199/200"));
        assert_eq!(two.iter().map(|portion| portion.number).collect::<Vec<_>>(), [3, 199]);
        assert!(two.has_shard(3) && two.has_shard(403) && !two.has_shard(4) && !two.is_first());
        assert!(two.has_guild(Some(&(199_u64 << 22).to_string())) && !two.has_guild(None));
        assert_eq!(two.without(3).without(3), Portions::none(200).with(199));
        assert!(two.without(3).without(199).is_empty());
        let whole = Portions::from(Portion::WHOLE);
        assert!(whole == Portions::WHOLE && whole.has_guild(Some("12345678901234")) && whole.has_shard(9));
        assert_eq!(Portions::none(2).range_of(DOOR, Some(&(1_u64 << 22).to_string())), shards(1, 1, 2));
        assert_eq!(Portions::WHOLE.range_of(DOOR, Some("1")), Range::Door(DOOR));
    }

    #[test]
    fn tokens_rise_and_a_damaged_one_is_none() {
        assert_eq!(FencingToken::stored(Some("41")).next(), FencingToken(42));
        assert_eq!(
            (FencingToken::stored(None), FencingToken::stored(Some("x"))),
            (FencingToken::NONE, FencingToken::NONE)
        );
        assert!(FencingToken(9) < FencingToken(10));
    }
}
