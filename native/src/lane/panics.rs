//! Where threads of the lane have panicked, and the TLS library: Python logs it, and nothing is
//! printed.
//!
//! A panic's message may have received bytes, so only its place in the source is kept.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use super::locked;

/// More places are not kept until Python has logged these.
pub const PLACES_MAX: usize = 16;

static HOOK: Once = Once::new();
static CAUGHT: AtomicU64 = AtomicU64::new(0);
/// Places of panics in threads that are not the lane's.
static ELSEWHERE: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// Places of panics in a thread of the lane; None in other threads.
    static PLACES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Note where this thread panics from now on. Panics of other threads are printed as before.
pub fn note() {
    install();
    PLACES.set(Some(Vec::new()));
}

/// Do something in any thread; None if it panics, which is counted.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    install();
    let is_elsewhere = PLACES.with_borrow(Option::is_none);
    if is_elsewhere {
        PLACES.set(Some(Vec::new()));
    }
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    if done.is_none() {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
    }
    if is_elsewhere {
        let places = PLACES.take().unwrap_or_default();
        if !places.is_empty() {
            let mut kept = locked(&ELSEWHERE);
            let room = PLACES_MAX.saturating_sub(kept.len());
            kept.extend(places.into_iter().take(room));
        }
    }
    done
}

/// Return how many panics `caught` has counted.
pub fn caught_count() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// Return where threads that are not the lane's have panicked in `caught` since the last time.
pub fn noted_elsewhere() -> Vec<String> {
    std::mem::take(&mut *locked(&ELSEWHERE))
}

fn install() {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let place = panic.location().map_or_else(String::new, ToString::to_string);
            if !is_noted(place) {
                before(panic);
            }
        }));
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_that_is_caught_is_counted_and_only_its_place_is_kept() {
        let before = caught_count();
        assert_eq!(caught(|| 5), Some(5));
        assert_eq!(caught(|| panic!("a record's content")), None::<()>);
        assert!(caught_count() > before);
        let places = noted_elsewhere();
        assert!(places.iter().any(|place| place.contains("panics.rs:")), "{places:?}");
        assert!(PLACES.with_borrow(Option::is_none)); // later panics are printed as before
    }

    #[test]
    fn a_thread_of_the_lane_notes_it_as_its_other_panics() {
        note();
        assert_eq!(caught(|| panic!("a record's content")), None::<()>);
        assert_eq!(noted().len(), 1);
    }
}
