//! The caller of a command, for the sources of tools and facts.

use super::CommandParts;
use domain::command::Command;
use domain::ids::TurnId;
use domain::tool::OnBehalf;

impl CommandParts {
    /// Returns the context for a call of this command's member.
    pub(super) fn on_behalf(&self, command: &Command) -> OnBehalf {
        let (live, person) = (&self.basics.live, &command.caller.person);
        let door_alone = live.now().rules(&command.place.door).is_some_and(|rules| rules.policy.alone);
        OnBehalf {
            person: person.clone(),
            linked: live.linked(person),
            alone: door_alone || command.guild.is_none(),
            place: command.place.clone(),
            parent: command.parent.clone(),
            guild: command.guild.clone(),
            roles: command.caller.roles.clone(),
            own: None,
            turn: TurnId::of(&command.callback.id),
            at: command.at,
            keeps: true,
            operator: false,
            lineage: None,
            tokens: 0,
            call: 0,
        }
    }
}
