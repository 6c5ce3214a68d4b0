//! The tools of this program itself, as far as they are configured.

use std::sync::Arc;

use crate::config::Settings;
use crate::config::data_tools;
use crate::ports::{Clock, Dice, Facts};
use crate::tools::url_extract::{self, UrlExtract};
use crate::tools::{self, BuiltInTool};

/// All that these settings offer. Nothing is opened before its first call.
pub(super) fn configured(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    facts: &Arc<dyn Facts>,
) -> Vec<Box<dyn BuiltInTool>> {
    let mut offered = tools::simple(clock, dice);
    if settings.memory.facts > 0 {
        offered.extend(tools::memory(facts));
    }
    if settings.url_extract.enabled {
        offered.push(Box::new(UrlExtract::new(pages(&settings.url_extract))));
    }
    offered
}

/// What `url_extract` may do.
fn pages(settings: &data_tools::UrlExtract) -> url_extract::Options {
    let data_tools::UrlExtract { ports, allow, deny, bytes, timeout, .. } = settings.clone();
    url_extract::Options { reach: url_extract::Reach { ports, allow, deny }, bytes, timeout }
}
