//! Assigns, removes and reads roles.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serenity::model::id::{ChannelId, RoleId};

use super::answer::RestError;
use super::{Rest, foreign, number};
use crate::DOOR;
use domain::ids::Person;
use domain::restriction::{Appointment, Member};
use ports::{PostError, PostReply, PostResult};

/// The header of the reason shown in Discord's audit log.
const REASON: HeaderName = HeaderName::from_static("x-audit-log-reason");
/// The longest reason, in characters.
const REASON_MAX: usize = 512;
/// Discord's code for a member who is in no voice channel.
const UNKNOWN_VOICE_STATE: u32 = 10_065;
/// Discord's codes for an unknown guild, member or user.
const ABSENT: [u32; 3] = [10_004, 10_007, 10_013];

impl Rest {
    /// Assigns (`PUT`) or removes (`DELETE`) a role. Both are idempotent.
    pub(super) async fn set_role(&self, method: Method, appointment: &Appointment) -> Result<PostReply, PostError> {
        let Appointment { member, role, reason } = appointment;
        let path = format!("{}/roles/{}", path(member)?, id(role)?);
        let mut headers = HeaderMap::with_capacity(3);
        if let Ok(reason) = HeaderValue::from_str(&encoded(reason)) {
            headers.insert(REASON, reason);
        }
        match self.send_with(headers, method, &path, None).await {
            Ok(answer) => Ok(answer.reply(PostResult::Done)),
            Err(error) => absent(error),
        }
    }

    /// Returns the roles of a member, which messages of this API do not contain.
    pub(super) async fn roles(&self, member: &Member) -> Result<PostReply, PostError> {
        #[derive(Deserialize)]
        struct Told {
            roles: Vec<RoleId>,
        }
        let answer = match self.send(Method::GET, &path(member)?, None).await {
            Ok(answer) => answer,
            Err(error) => return absent(error),
        };
        let Told { roles } = answer.json()?;
        Ok(answer.reply(PostResult::Roles(roles.iter().map(ToString::to_string).collect())))
    }
}

impl Rest {
    /// Returns the voice channel of a member; `None` if in none.
    pub(crate) async fn voice_channel(&self, guild: &str, person: &Person) -> Result<Option<String>, PostError> {
        #[derive(Deserialize)]
        struct Told {
            channel_id: Option<ChannelId>,
        }
        if person.door != DOOR {
            return Err(foreign("the person"));
        }
        let path = format!("/guilds/{}/voice-states/{}", id(guild)?, id(&person.id)?);
        let answer = match self.send(Method::GET, &path, None).await {
            Ok(answer) => answer,
            Err(error) if error.code() == Some(UNKNOWN_VOICE_STATE) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Told { channel_id } = answer.json()?;
        Ok(channel_id.map(|channel| channel.to_string()))
    }
}

fn path(Member { guild, person }: &Member) -> Result<String, PostError> {
    if person.door != DOOR {
        return Err(foreign("the person"));
    }
    Ok(format!("/guilds/{}/members/{}", id(guild)?, id(&person.id)?))
}

fn id(text: &str) -> Result<u64, PostError> {
    number(text).ok_or_else(|| foreign("an id"))
}

/// An absent member is not a failure.
fn absent(error: RestError) -> Result<PostReply, PostError> {
    if error.code().is_some_and(|code| ABSENT.contains(&code)) {
        return Ok(PostReply { result: PostResult::Absent, bucket: None });
    }
    Err(error.into())
}

fn encoded(reason: &str) -> String {
    let mut out = String::with_capacity(reason.len());
    for byte in reason.chars().take(REASON_MAX).collect::<String>().bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{access, answer, serve};
    use domain::ids::Person;
    use domain::rejection::Rejection;
    use ports::{PostRequest, Poster};

    fn appointment(guild: &str) -> Appointment {
        let member = Member { guild: guild.to_owned(), person: Person::new(DOOR, "7") };
        Appointment { member, role: "12".to_owned(), reason: "zu viele Fragen: 5 % über".to_owned() }
    }

    fn add(guild: &str) -> PostRequest {
        PostRequest::AddRole(appointment(guild))
    }

    #[tokio::test]
    async fn a_role_is_given_with_its_reason_and_taken_again() {
        let (base, mut requests) = serve(vec![answer(204, "", ""), answer(204, "", "")]).await;
        let rest = Rest::new(&access(&base)).unwrap();
        assert_eq!(rest.perform(&add("5")).await.unwrap().result, PostResult::Done);
        let request = requests.recv().await.unwrap();
        assert_eq!(request.line, "PUT /api/v10/guilds/5/members/7/roles/12");
        // The test server lower-cases all headers.
        let reason = "x-audit-log-reason: zu%20viele%20fragen%3a%205%20%25%20%c3%bcber";
        assert!(request.headers.contains(reason), "{}", request.headers);
        let take = PostRequest::RemoveRole(appointment("5"));
        assert_eq!(rest.perform(&take).await.unwrap().result, PostResult::Done);
        assert_eq!(requests.recv().await.unwrap().line, "DELETE /api/v10/guilds/5/members/7/roles/12");
    }

    #[tokio::test]
    async fn who_left_is_absent_and_a_missing_right_is_a_refusal() {
        let left = answer(404, "", r#"{"message":"Unknown Member","code":10007}"#);
        let forbidden = answer(403, "", r#"{"message":"Missing Permissions","code":50013}"#);
        let no_role = answer(404, "", r#"{"message":"Unknown Role","code":10011}"#);
        let (base, _requests) = serve(vec![left, forbidden, no_role]).await;
        let rest = Rest::new(&access(&base)).unwrap();
        assert_eq!(rest.perform(&add("5")).await.unwrap().result, PostResult::Absent);
        for reason in [Rejection::Forbidden, Rejection::Content] {
            let refused = rest.perform(&add("5")).await.unwrap_err();
            assert!(matches!(refused, PostError::Rejected { reason: told, .. } if told == reason), "{refused}");
        }
    }

    #[tokio::test]
    async fn the_roles_of_a_member_are_read() {
        let known = answer(200, "", r#"{"user":{"id":"7"},"nick":null,"roles":["12","13"]}"#);
        let left = answer(404, "", r#"{"message":"Unknown Member","code":10007}"#);
        let (base, mut requests) = serve(vec![known, left]).await;
        let rest = Rest::new(&access(&base)).unwrap();
        let read = PostRequest::Roles(appointment("5").member);
        let told = PostResult::Roles(vec!["12".to_owned(), "13".to_owned()]);
        assert_eq!(rest.perform(&read).await.unwrap().result, told);
        assert_eq!(requests.recv().await.unwrap().line, "GET /api/v10/guilds/5/members/7");
        assert_eq!(rest.perform(&read).await.unwrap().result, PostResult::Absent);
    }

    #[tokio::test]
    async fn ids_that_are_no_numbers_reach_nobody() {
        let (base, _requests) = serve(Vec::new()).await;
        let rest = Rest::new(&access(&base)).unwrap();
        assert!(matches!(
            rest.perform(&add("5/../6")).await,
            Err(PostError::Rejected { reason: Rejection::Content, .. })
        ));
    }
}
