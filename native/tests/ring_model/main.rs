//! Rings, threads, workers and their Python side as a simulation: random histories, each of a seed.
//!
//! Rings, both of their ends, turns, pools, tables and relays are those of the gateway.
//! Simulated are a worker process, in steps between which it may be killed or write nonsense
//! (`worker`), and what threads and Python do around a ring, in any order (`world`). A batch's verdict
//! follows from its id and its plan, so that a verdict that is used for another batch is noticed.
//!
//! `RING_HISTORIES` is the number of histories, `RING_SEED` the first seed of each mode.
#![cfg(target_os = "linux")]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

mod random;
mod worker;
mod world;

use world::{Figures, Mode, run};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// How many histories there are, if no other number is given.
const USUAL: u64 = 1_508;

/// Run histories of a mode, a share of them all.
fn histories(mode: Mode, usual: u64) -> Figures {
    let first = number("RING_SEED").unwrap_or(0);
    let count = number("RING_HISTORIES").map_or(usual, |count| (count * usual).div_ceil(USUAL));
    let mut sum = Figures::default();
    for seed in first..first + count {
        sum.add(&run(seed, mode));
    }
    println!("{mode:?}: {sum:?}");
    sum
}

#[test]
fn healthy_workers_judge_each_batch_once() {
    let sum = histories(Mode::Healthy, 300);
    assert!(sum.forwarded > 0 && sum.refused > 0);
    assert_eq!((sum.judged_again, sum.late, sum.broken), (0, 0, 0));
}

#[test]
fn recalls_kills_and_reloads_at_each_step_lose_nothing() {
    let sum = histories(Mode::Ends, 800);
    let all = [sum.forwarded, sum.accepted_early, sum.refused, sum.late, sum.judged_again];
    assert!(all.iter().all(|count| *count > 0) && sum.lost > 0 && sum.broken == 0);
}

#[test]
fn nonsense_of_a_worker_harms_only_its_own_batches() {
    let sum = histories(Mode::Nonsense, 400);
    assert!(sum.broken > 0 && sum.forwarded > 0);
}

#[test]
fn full_rings_become_empty_again() {
    let sum = histories(Mode::Full, 8);
    assert!(sum.forwarded > 0 && sum.waited > 0);
}
