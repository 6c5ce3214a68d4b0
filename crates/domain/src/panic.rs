//! The text of a caught panic.

use std::any::Any;

use super::unquoted::unquoted;

/// Returns the text of a panic's payload without quoted values.
#[must_use]
pub fn text(payload: &(dyn Any + Send)) -> String {
    unquoted(whole(payload))
}

/// Returns the text of a panic's payload with quoted values.
#[must_use]
pub fn whole(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_text_are_found_and_anything_else_has_none() {
        let said = |payload: &(dyn Any + Send)| text(payload);
        assert_eq!(said(&"plain"), "plain");
        assert_eq!(said(&"formatted".to_owned()), "formatted");
        assert_eq!(said(&7), "a panic without text");
    }
}
