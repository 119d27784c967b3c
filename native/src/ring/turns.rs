//! The order of clients that wait for a worker: they get equal time, not equal numbers of batches.
//!
//! It is `penstock.engine.workers.turns`: start-time fair queueing. Each client has an account, in
//! seconds of virtual time, which is slower than the worker's by the number of clients that wait. A
//! client that begins to wait starts at that time or later, so absent clients do not save up turns.
//! The next client is the client whose next batch would be done first. How long it takes is known
//! afterwards: until then the average of the client's recent batches counts, for a new client that
//! of recent new clients.
//!
//! A client is a connection, as in Python. Its batches have one turn after the other, in the order
//! in which they came: they are of different partitions, because it has one request at a time.
#![forbid(unsafe_code)]

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The least cost of a batch, in seconds: `LEAST_S` in Python.
pub const LEAST_S: f64 = 0.001;
const NEW_MAX_S: f64 = 0.05;
const KEPT_MIN: usize = 64;

#[derive(Debug)]
struct Turn<T> {
    /// When its next batch would begin, in virtual time.
    start: f64,
    /// The average time of its recent batches; 0 if less than `LEAST_S`.
    expected_s: f64,
    is_new: bool,
    /// Its place in the order, while something of it waits.
    place: Option<Place>,
    waiting: VecDeque<T>,
}

/// The clients of a worker, and what waits.
#[derive(Debug)]
pub struct Turns<T> {
    by_client: HashMap<u64, Turn<T>>,
    /// The clients of which something waits.
    order: BTreeMap<Place, u64>,
    time: f64,
    new_s: f64,
    /// The number of the last place.
    last: u64,
    /// How much waits.
    count: usize,
    forget_at: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            by_client: HashMap::new(),
            order: BTreeMap::new(),
            time: 0.0,
            new_s: 0.0,
            last: 0,
            count: 0,
            forget_at: KEPT_MIN,
        }
    }
}

impl<T> Turns<T> {
    /// Return whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Return how much waits.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Let something of a client wait.
    pub fn enter(&mut self, client: u64, what: T) {
        self.enter_by(client, |waiting| waiting.push_back(what));
    }

    /// Let something of a client wait again, before all else of it.
    pub fn enter_first(&mut self, client: u64, what: T) {
        self.enter_by(client, |waiting| waiting.push_front(what));
    }

    fn enter_by(&mut self, client: u64, put: impl FnOnce(&mut VecDeque<T>)) {
        self.count = self.count.saturating_add(1);
        let (time, turn) = (self.time, self.turn(client));
        put(&mut turn.waiting);
        if turn.place.is_none() {
            turn.start = turn.start.max(time);
            self.put(client);
        }
    }

    /// Return all that waits, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.by_client.values().flat_map(|turn| &turn.waiting)
    }

    /// Return what is next.
    pub fn peek(&self) -> Option<&T> {
        let (_, client) = self.order.first_key_value()?;
        self.by_client.get(client)?.waiting.front()
    }

    /// Begin with what is next; return it, and how long it is expected to take.
    pub fn begin_next(&mut self) -> Option<(T, f64)> {
        let (_, client) = self.order.first_key_value()?;
        let client = *client;
        let what = self.by_client.get_mut(&client)?.waiting.pop_front()?;
        self.count = self.count.saturating_sub(1);
        Some((what, self.begin(client)))
    }

    /// Begin with a batch of a client while nothing waits; return how long it is expected to take.
    pub fn begin_at_once(&mut self, client: u64) -> f64 {
        // Where everything is quick and nobody waits, there are no accounts.
        if self.new_s <= 0.0 && !self.by_client.contains_key(&client) {
            return 0.0;
        }
        let (time, turn) = (self.time, self.turn(client));
        turn.start = turn.start.max(time);
        self.begin(client)
    }

    /// Correct for the difference between the expected and the real time of a batch.
    pub fn settle(&mut self, client: u64, expected_s: f64, took_s: f64) {
        if took_s <= LEAST_S && expected_s <= 0.0 {
            return;
        }
        let new_s = of_late(self.new_s, took_s.min(NEW_MAX_S));
        let turn = self.turn(client);
        let was_new = turn.is_new;
        if was_new {
            (turn.is_new, turn.expected_s) = (false, 0.0);
        }
        turn.expected_s = of_late(turn.expected_s, took_s);
        let more_s = took_s.max(LEAST_S) - expected_s.max(LEAST_S);
        turn.start += more_s;
        if was_new {
            self.new_s = new_s;
        }
        self.time += more_s / (self.clients() + 1.0);
        self.put(client);
    }

    /// Remove what waits of a client and is not needed any more.
    pub fn remove(&mut self, client: u64, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let turn = self.by_client.get_mut(&client)?;
        let position = turn.waiting.iter().position(is_it)?;
        let what = turn.waiting.remove(position)?;
        self.count = self.count.saturating_sub(1);
        if turn.waiting.is_empty() {
            self.put(client);
        }
        Some(what)
    }

    /// Return all that waits, and remove it.
    pub fn drain(&mut self) -> Vec<T> {
        self.count = 0;
        let clients = std::mem::take(&mut self.order);
        let mut all = Vec::new();
        for client in clients.into_values() {
            if let Some(turn) = self.by_client.get_mut(&client) {
                turn.place = None;
                all.extend(std::mem::take(&mut turn.waiting));
            }
        }
        self.forget_paid();
        all
    }

    /// Count a batch that a client begins; it waits on if there is more.
    fn begin(&mut self, client: u64) -> f64 {
        let clients = self.clients().max(1.0);
        let turn = self.turn(client);
        let expected_s = turn.expected_s;
        let counts_s = expected_s.max(LEAST_S);
        turn.start += counts_s;
        self.time += counts_s / clients;
        self.put(client);
        expected_s
    }

    /// Give a client its place in the order; none if nothing of it waits.
    fn put(&mut self, client: u64) {
        let Some(turn) = self.by_client.get_mut(&client) else { return };
        if let Some(place) = turn.place.take() {
            self.order.remove(&place);
        }
        if !turn.waiting.is_empty() {
            self.last = self.last.saturating_add(1);
            let ends = turn.start + turn.expected_s.max(LEAST_S);
            let place = Place { ends, number: self.last };
            turn.place = Some(place);
            self.order.insert(place, client);
        }
    }

    /// How many clients wait.
    fn clients(&self) -> f64 {
        u32::try_from(self.order.len()).map_or(f64::from(u32::MAX), f64::from)
    }

    /// Forget clients that have nothing waiting, and would start now.
    fn forget_paid(&mut self) {
        let time = self.time;
        self.by_client.retain(|_, turn| turn.place.is_some() || turn.start > time);
        self.forget_at = self.by_client.len().saturating_mul(2).max(KEPT_MIN);
        self.by_client.shrink_to(self.forget_at);
    }

    /// Return a client's account.
    fn turn(&mut self, client: u64) -> &mut Turn<T> {
        if self.by_client.len() >= self.forget_at && !self.by_client.contains_key(&client) {
            self.forget_paid();
        }
        let (start, expected_s) = (self.time, self.new_s);
        self.by_client.entry(client).or_insert_with(|| Turn {
            start,
            expected_s,
            is_new: true,
            place: None,
            waiting: VecDeque::new(),
        })
    }
}

/// Return the average time of recent batches, with a new batch; 0 if less than `LEAST_S`.
fn of_late(before_s: f64, took_s: f64) -> f64 {
    let expected_s = if before_s > 0.0 { f64::midpoint(before_s, took_s) } else { took_s };
    if expected_s > LEAST_S { expected_s } else { 0.0 }
}

/// A place in the order: when a client's next batch would be done, and then who was there first.
#[derive(Debug, Clone, Copy)]
struct Place {
    ends: f64,
    number: u64,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ends.total_cmp(&other.ends).then_with(|| self.number.cmp(&other.number))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge_next(turns: &mut Turns<usize>, took_s: f64) -> usize {
        let (client, expected_s) = turns.begin_next().unwrap();
        turns.settle(client as u64, expected_s, took_s);
        client
    }

    /// Let clients send one batch after the other to a worker that judges one at a time; return how
    /// many batches of each were judged.
    fn judged(times: &[f64], rounds: usize) -> Vec<usize> {
        let mut turns = Turns::default();
        let mut counts = vec![0; times.len()];
        for (client, _) in times.iter().enumerate() {
            turns.enter(client as u64, client);
        }
        for _ in 0..rounds {
            let client = *turns.peek().unwrap();
            judge_next(&mut turns, times[client]);
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
    fn several_batches_of_a_client_have_one_turn_after_the_other() {
        let mut turns = Turns::default();
        for client in [0, 0, 0, 0, 1, 1, 2] {
            turns.enter(client as u64, client);
        }
        let order: Vec<_> = (0..7).map(|_| judge_next(&mut turns, 0.01)).collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 0, 0]);
        assert_eq!((turns.is_empty(), turns.len()), (true, 0));
    }

    #[test]
    fn batches_of_clients_that_came_first_do_not_slow_virtual_time_down() {
        let mut turns = Turns::default();
        for _ in 0..100 {
            turns.enter(1, 1);
        }
        turns.enter(2, 2);
        for _ in 0..50 {
            judge_next(&mut turns, 0.01);
        }
        // The other has waited, and had its batch; a new client does not come before the first's due.
        turns.enter(3, 3);
        assert_eq!(judge_next(&mut turns, 0.01), 3);
        assert_eq!(turns.len(), 51);
        assert!((turns.time - 0.5).abs() < 0.02, "{}", turns.time);
    }

    #[test]
    fn what_is_not_needed_any_more_is_removed_at_once() {
        let mut turns = Turns::default();
        for (client, what) in [(1, 10), (1, 11), (1, 12), (2, 20)] {
            turns.enter(client, what);
        }
        assert_eq!(turns.remove(1, |what| *what == 11), Some(11));
        assert_eq!(turns.remove(1, |what| *what == 11), None);
        assert_eq!(turns.remove(3, |_| true), None);
        assert_eq!(turns.remove(1, |what| *what == 10), Some(10));
        assert_eq!((turns.peek(), turns.len()), (Some(&12), 2));
        assert_eq!(turns.remove(1, |_| true), Some(12));
        assert_eq!((turns.peek(), turns.len()), (Some(&20), 1));
        assert_eq!(turns.drain(), [20]);
        assert!(turns.is_empty() && turns.begin_next().is_none());
        turns.enter(2, 21);
        assert_eq!(turns.peek(), Some(&21));
    }

    #[test]
    fn an_absent_client_saves_nothing_up() {
        let mut turns = Turns::default();
        for _ in 0..100 {
            turns.enter(1, 1);
            judge_next(&mut turns, 0.01);
        }
        turns.enter(2, 2);
        turns.enter(1, 1);
        assert_eq!(judge_next(&mut turns, 0.01), 2);
        turns.enter(2, 2);
        assert_eq!(judge_next(&mut turns, 0.01), 1);
    }

    #[test]
    fn quick_clients_have_no_account() {
        let mut turns: Turns<()> = Turns::default();
        for client in 0..1000 {
            let expected_s = turns.begin_at_once(client);
            turns.settle(client, expected_s, 0.0005);
        }
        assert!(turns.by_client.is_empty());
    }

    #[test]
    fn clients_that_are_gone_take_no_memory() {
        let mut turns = Turns::default();
        for client in 0..20_000_u64 {
            for _ in 0..2 {
                turns.enter(client, 1_u8);
            }
            if client >= 100 {
                turns.begin_next();
                let (_, expected_s) = turns.begin_next().unwrap();
                turns.settle(client, expected_s, 0.02);
            }
        }
        while turns.begin_next().is_some() {}
        assert!(turns.by_client.len() < 2_000 && turns.order.is_empty());
        for client in 0..20_000 {
            turns.enter(30_000 + client, 1);
        }
        turns.drain();
        turns.enter(0, 1);
        assert_eq!((turns.by_client.len(), turns.order.len()), (1, 1));
        assert!(turns.by_client.capacity() < 1_000);
    }
}
