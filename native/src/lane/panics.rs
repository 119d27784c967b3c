//! Where threads of the lane have panicked: Python logs it, and nothing is printed.
//!
//! What a panic says may hold what was received, so only its place in the source is kept.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

static HOOK: Once = Once::new();

thread_local! {
    /// Of a thread of the lane; None of others.
    static PLACES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Note where this thread panics from now on. Panics of other threads are printed as before.
pub fn note() {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let place = panic.location().map_or_else(String::new, ToString::to_string);
            if !is_noted(place) {
                before(panic);
            }
        }));
    });
    PLACES.set(Some(Vec::new()));
}

fn is_noted(place: String) -> bool {
    let noted = PLACES.try_with(|places| {
        let mut places = places.try_borrow_mut().ok()?;
        places.as_mut().map(|places| places.push(place))
    });
    matches!(noted, Ok(Some(())))
}

/// Return where this thread has panicked since the last time.
pub fn noted() -> Vec<String> {
    PLACES.with_borrow_mut(|places| places.as_mut().map(std::mem::take).unwrap_or_default())
}
