//! Sliding windows of `config.json`.

use incarnate_bytecode::{Error, Result};
use serde_json::Value;

use super::facts::Facts;
use super::family::WindowRule;

/// The positions of a sliding window; 0 without one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) size: u64,
    /// Whether each layer has one; all have where it is `None`.
    pub(super) layers: Option<Vec<bool>>,
}

const LAYERS: &str = "layer_types";
const USED: &str = "use_sliding_window";

/// Reads the sliding window of a model of so many layers.
pub(super) fn read(facts: &Facts<'_>, rule: WindowRule, layers: u64) -> Result<Window> {
    const NONE: Window = Window { size: 0, layers: None };
    match rule {
        // Keys that are there are left for the check.
        WindowRule::Never => Ok(NONE),
        WindowRule::All(default) => Ok(Window { size: size(facts, default)?, layers: None }),
        WindowRule::Refused => {
            facts.refuse(USED)?;
            size(facts, 0)?;
            facts.ignore(&["max_window_layers"]);
            match stated(facts, layers)? {
                Some(layers) if layers.contains(&true) => {
                    Err(Error::unimplemented(format!("'{LAYERS}' with 'sliding_attention'")))
                }
                _ => Ok(NONE),
            }
        }
        WindowRule::FromLayer { size: default, first } => {
            let is_used = facts.flag(USED, false)?;
            let size = size(facts, default)?;
            let first = facts.count("max_window_layers")?.unwrap_or(first);
            let stated = stated(facts, layers)?;
            let layers = stated.unwrap_or_else(|| (0..layers).map(|layer| layer >= first).collect());
            Ok(if is_used { Window { size, layers: Some(layers) } } else { NONE })
        }
        WindowRule::Periodic { size: default, period } => {
            let size = size(facts, default)?;
            // Newer files keep the number that their `layer_types` are made of.
            facts.ignore(&["_sliding_window_pattern"]);
            let period = match facts.count("sliding_window_pattern")?.unwrap_or(period) {
                0 => return Err(Error::invalid_argument("'sliding_window_pattern' is 0")),
                period => period,
            };
            let stated = stated(facts, layers)?;
            let layers = stated.unwrap_or_else(|| (1..=layers).map(|layer| !layer.is_multiple_of(period)).collect());
            Ok(Window { size, layers: Some(layers) })
        }
    }
}

/// Returns the positions of the window: `null` stands for none.
fn size(facts: &Facts<'_>, default: u64) -> Result<u64> {
    const SIZE: &str = "sliding_window";
    let default = if facts.is_null(SIZE) { 0 } else { default };
    Ok(facts.count(SIZE)?.unwrap_or(default))
}

/// Returns whether each layer has a window, if `layer_types` is there.
fn stated(facts: &Facts<'_>, layers: u64) -> Result<Option<Vec<bool>>> {
    let is_local = |value: &Value| match value.as_str()? {
        "full_attention" => Some(false),
        "sliding_attention" => Some(true),
        _ => None,
    };
    let stated = facts.list(LAYERS, "'full_attention' and 'sliding_attention'", is_local)?;
    match stated {
        Some(stated) if stated.len() as u64 != layers => {
            Err(Error::invalid_argument(format!("'{LAYERS}' has {} of {layers} layers", stated.len())))
        }
        stated => Ok(stated),
    }
}
