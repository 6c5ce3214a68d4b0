//! Saves and restores the guilds over a restart of the service.

use super::super::kept::{self, SavedGuilds};
use super::super::{Channel, ChannelKind, Member, Message};
use super::State;

impl State {
    /// Returns the data to keep over a restart of the service.
    #[must_use]
    pub fn kept(&self) -> SavedGuilds {
        let opened = |channel: &&Channel| channel.kind != ChannelKind::Text;
        let channels: Vec<Channel> = self.channels().filter(opened).cloned().collect();
        let newest = |channel: &Channel| {
            let mut newest: Vec<Message> = self.messages(channel.id).rev().take(kept::MESSAGES).cloned().collect();
            newest.reverse();
            newest
        };
        let mut messages: Vec<Message> = self.channels().flat_map(newest).collect();
        // The order within a channel is preserved.
        messages.sort_by_key(|message| message.id);
        messages.drain(..messages.len().saturating_sub(kept::MESSAGES_IN_ALL));
        let roles = self.guilds.iter().flat_map(|guild| {
            let of_member = |member: &Member| (guild.id, member.id, member.roles.clone());
            guild.members.iter().map(of_member)
        });
        let files = messages.iter().rev().flat_map(|message| &message.attachments);
        let files = kept::files(files.filter_map(|told| Some((told.id, self.file(told.id)?))));
        let people = self.guilds.iter().flat_map(|guild| {
            let people = guild.members.iter().filter(|member| !member.bot);
            people.map(|member| (guild.id, member.clone()))
        });
        let (roles, people) = (roles.collect(), people.collect());
        SavedGuilds { version: kept::VERSION, channels, roles, people, messages, files }
    }

    /// Restores opened channels, members' roles, messages and files. Data of guilds or channels that no longer exist is
    /// ignored.
    pub fn restore(&mut self, kept: SavedGuilds) {
        for channel in kept.channels {
            match channel.guild {
                None => self.direct.push(channel),
                Some(guild) => {
                    if let Some(guild) = self.guilds.iter_mut().find(|known| known.id == guild) {
                        guild.channels.push(channel);
                    }
                }
            }
        }
        self.find_places();
        for (guild, member) in kept.people {
            if self.member(Some(guild), member.id).is_none() {
                self.snowflakes.begin_above(member.id.0);
                self.put_member(guild, member);
            }
        }
        for (guild, user, roles) in kept.roles {
            let guild = self.guilds.iter_mut().find(|known| known.id == guild);
            if let Some(member) = guild.and_then(|guild| guild.members.iter_mut().find(|member| member.id == user)) {
                member.roles = roles;
            }
        }
        for file in kept.files {
            if let Some((id, file)) = file.read() {
                self.files.keep(id, file);
            }
        }
        for message in kept.messages {
            let files = message.attachments.iter().map(|file| file.id.0);
            self.snowflakes.begin_above(files.fold(message.id.0, u64::max));
            if self.channel(message.channel).is_some() {
                self.keep(&message, message.sent_at);
            }
        }
    }
}
