//! The order of clients that wait for a worker: they get equal time, not equal numbers of batches.
//!
//! It is `penstock.engine.workers.turns` for connections that have one request at a time: start-time
//! fair queueing. Each client has an account, in seconds of virtual time, which is slower than the
//! worker's by the number of clients. A client that begins to wait starts at that time or later, so
//! absent clients do not save up turns. The next batch is that which would be done first. How long
//! it takes is known afterwards: until then the average of the client's recent batches counts, for a
//! new client that of recent new clients.
#![forbid(unsafe_code)]

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// The least cost of a batch, in seconds: `LEAST_S` in Python.
pub const LEAST_S: f64 = 0.001;
const NEW_MAX_S: f64 = 0.05;
const KEPT_MIN: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Account {
    /// When its next batch would begin, in virtual time.
    start: f64,
    /// The average time of its recent batches; 0 if less than `LEAST_S`.
    expected_s: f64,
    is_new: bool,
}

/// The clients of a worker, and what waits.
#[derive(Debug)]
pub struct Turns<T> {
    accounts: HashMap<u64, Account>,
    waiting: BinaryHeap<Waiting<T>>,
    time: f64,
    new_s: f64,
    entered: u64,
    forget_at: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            accounts: HashMap::new(),
            waiting: BinaryHeap::new(),
            time: 0.0,
            new_s: 0.0,
            entered: 0,
            forget_at: KEPT_MIN,
        }
    }
}

impl<T> Turns<T> {
    /// Return whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Let something of a client wait.
    pub fn enter(&mut self, client: u64, what: T) {
        let (time, account) = (self.time, self.account(client));
        account.start = account.start.max(time);
        let ends = account.start + account.expected_s.max(LEAST_S);
        self.entered = self.entered.saturating_add(1);
        self.waiting.push(Waiting { ends, entered: self.entered, what });
    }

    /// Return what is next.
    pub fn peek(&self) -> Option<&T> {
        self.waiting.peek().map(|next| &next.what)
    }

    /// Return what is next, and remove it.
    pub fn pop(&mut self) -> Option<T> {
        self.waiting.pop().map(|next| next.what)
    }

    /// Return all that waits, and remove it.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.waiting).into_iter().map(|next| next.what)
    }

    /// Return all that waits, to change it.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|next| &next.what)
    }

    /// Count a batch that a client begins, and whether it has waited; return how long it is expected
    /// to take.
    pub fn begin(&mut self, client: u64, has_waited: bool) -> f64 {
        // Where everything is quick and nobody waits, there are no accounts.
        if !has_waited
            && self.waiting.is_empty()
            && self.new_s <= 0.0
            && !self.accounts.contains_key(&client)
        {
            return 0.0;
        }
        let (time, others) = (self.time, self.others());
        let account = self.account(client);
        if !has_waited {
            account.start = account.start.max(time);
        }
        let expected_s = account.expected_s;
        let counts_s = expected_s.max(LEAST_S);
        account.start += counts_s;
        self.time += counts_s / others;
        expected_s
    }

    /// Correct for the difference between the expected and the real time of a batch.
    pub fn settle(&mut self, client: u64, expected_s: f64, took_s: f64) {
        let is_known = self.accounts.contains_key(&client);
        if took_s <= LEAST_S && expected_s <= 0.0 && !is_known {
            return;
        }
        let (new_s, others) = (of_late(self.new_s, took_s.min(NEW_MAX_S)), self.others());
        let account = self.account(client);
        let was_new = account.is_new;
        if was_new {
            (account.is_new, account.expected_s) = (false, 0.0);
        }
        account.expected_s = of_late(account.expected_s, took_s);
        let more_s = took_s.max(LEAST_S) - expected_s.max(LEAST_S);
        account.start += more_s;
        self.time += more_s / others;
        if was_new {
            self.new_s = new_s;
        }
    }

    /// How many share the worker's time.
    fn others(&self) -> f64 {
        u32::try_from(self.waiting.len()).map_or(f64::from(u32::MAX), f64::from) + 1.0
    }

    fn account(&mut self, client: u64) -> &mut Account {
        if self.accounts.len() >= self.forget_at && !self.accounts.contains_key(&client) {
            let time = self.time;
            self.accounts.retain(|_, account| account.start > time);
            self.forget_at = self.accounts.len().saturating_mul(2).max(KEPT_MIN);
        }
        let fresh = Account { start: self.time, expected_s: self.new_s, is_new: true };
        self.accounts.entry(client).or_insert(fresh)
    }
}

/// Return the average time of recent batches, with a new batch; 0 if less than `LEAST_S`.
fn of_late(before_s: f64, took_s: f64) -> f64 {
    let expected_s = if before_s > 0.0 { f64::midpoint(before_s, took_s) } else { took_s };
    if expected_s > LEAST_S { expected_s } else { 0.0 }
}

#[derive(Debug)]
struct Waiting<T> {
    ends: f64,
    entered: u64,
    what: T,
}

impl<T> Ord for Waiting<T> {
    /// The first in order is the greatest of the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.ends.total_cmp(&self.ends).then_with(|| other.entered.cmp(&self.entered))
    }
}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Waiting<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Let clients send one batch after the other to a worker that judges one at a time; return how
    /// many batches of each were judged.
    fn judged(times: &[f64], rounds: usize) -> Vec<usize> {
        let mut turns = Turns::default();
        let mut counts = vec![0; times.len()];
        for (client, _) in times.iter().enumerate() {
            turns.enter(client as u64, client);
        }
        for _ in 0..rounds {
            let client = turns.pop().unwrap();
            let expected_s = turns.begin(client as u64, true);
            turns.settle(client as u64, expected_s, times[client]);
            counts[client] += 1;
            turns.enter(client as u64, client);
        }
        counts
    }

    #[test]
    fn clients_get_equal_time() {
        let counts = judged(&[0.01, 0.01, 0.04], 900);
        assert!((395..=405).contains(&counts[0]) && (95..=105).contains(&counts[2]), "{counts:?}");
    }

    #[test]
    fn a_quick_client_waits_for_about_one_slow_batch_of_many_clients() {
        let mut times = vec![0.05; 50];
        times.push(0.0001);
        let counts = judged(&times, 2000);
        assert!(counts[50] > 900, "{counts:?}");
    }

    #[test]
    fn an_absent_client_saves_nothing_up() {
        let mut turns = Turns::default();
        for _ in 0..100 {
            turns.enter(1, 1);
            turns.pop();
            let expected_s = turns.begin(1, true);
            turns.settle(1, expected_s, 0.01);
        }
        turns.enter(2, 2);
        turns.enter(1, 1);
        assert_eq!(turns.pop(), Some(2));
        let expected_s = turns.begin(2, true);
        turns.settle(2, expected_s, 0.01);
        turns.enter(2, 2);
        assert_eq!(turns.pop(), Some(1));
    }

    #[test]
    fn quick_clients_have_no_account() {
        let mut turns: Turns<()> = Turns::default();
        for client in 0..1000 {
            let expected_s = turns.begin(client, false);
            turns.settle(client, expected_s, 0.0005);
        }
        assert!(turns.accounts.is_empty());
        for client in 0..1000 {
            let expected_s = turns.begin(client, false);
            turns.settle(client, expected_s, 0.002);
        }
        assert!(turns.accounts.len() <= 1000);
    }
}
