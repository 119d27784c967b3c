//! The connections of a thread whose next request is judged in slices, and whose turn it is.
//!
//! Clients get equal time, by `ring::turns`: however many connections a client has, and however long
//! it takes to judge their batches, it does not hold others up. A turn has a batch, or several that
//! are quick, and is not interrupted: between two batches no records are held, so those of a single
//! batch are decompressed at a time.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::slices::Slice;
use crate::ring::sender::WAITING_MAX;
use crate::ring::turns::Turns;

/// A connection, and its client.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    connection: u64,
    client: u64,
    /// Until when it waits for a turn.
    until: Duration,
}

/// A turn that has begun.
struct Turn {
    of: Waiting,
    began_at: Duration,
    /// How long it is expected to take.
    expected_s: f64,
    took_s: f64,
}

/// The connections that wait for a turn, and the connection that has one.
#[derive(Default)]
pub struct Sliced {
    turns: Turns<Waiting>,
    /// The clients of the connections that wait, by until when these do.
    until: BTreeMap<(Duration, u64), u64>,
    turn: Option<Turn>,
}

impl Sliced {
    /// Return whether there is nothing to judge.
    pub fn is_empty(&self) -> bool {
        self.turn.is_none() && self.turns.is_empty()
    }

    /// Let a connection of a client wait for a turn from now on.
    pub fn enter(&mut self, client: u64, connection: u64, now: f64) {
        let until = time(now).saturating_add(WAITING_MAX);
        self.until.insert((until, connection), client);
        self.turns.enter(client, Waiting { connection, client, until });
    }

    /// Return the connection that has a turn now, if there is any.
    pub fn next(&mut self, now: f64) -> Option<u64> {
        if self.turn.is_none() {
            let (of, expected_s) = self.turns.begin_next()?;
            self.until.remove(&(of.until, of.connection));
            self.turn = Some(Turn { of, began_at: time(now), expected_s, took_s: 0.0 });
        }
        self.turn.as_ref().map(|turn| turn.of.connection)
    }

    /// Note the result of a slice of the connection that has a turn, and how long it took.
    pub fn note(&mut self, slice: Slice, took_s: f64, now: f64) {
        if let Some(turn) = &mut self.turn {
            turn.took_s += took_s;
        }
        let Some(turn) = self.turn.take_if(|_| slice != Slice::GoesOn) else { return };
        let Turn { mut of, began_at, expected_s, took_s } = turn;
        self.turns.settle(of.client, expected_s, took_s);
        if slice == Slice::Between {
            // It did not wait during its turn.
            of.until = of.until.saturating_add(time(now).saturating_sub(began_at));
            self.until.insert((of.until, of.connection), of.client);
            self.turns.enter_first(of.client, of);
        }
    }

    /// Return the connections that have waited for too long, and forget them: their requests are
    /// Python's, which answers before their clients give up.
    pub fn take_late(&mut self, now: f64) -> Vec<u64> {
        let (now, mut late) = (time(now), Vec::new());
        while let Some(first) = self.until.first_entry()
            && first.key().0 < now
        {
            let ((_, connection), client) = first.remove_entry();
            self.turns.remove(client, |waiting| waiting.connection == connection);
            late.push(connection);
        }
        late
    }
}

/// A time by Python's clock, which can be compared.
fn time(now: f64) -> Duration {
    Duration::try_from_secs_f64(now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judge turns of a second until a connection has had its last; return whose turns these were.
    fn judged_until(sliced: &mut Sliced, last: u64) -> Vec<u64> {
        let mut order = Vec::new();
        while order.last() != Some(&last) {
            let next = sliced.next(0.0).unwrap();
            sliced.note(Slice::GoesOn, 0.5, 0.0);
            assert_eq!(sliced.next(0.0), Some(next));
            sliced.note(Slice::Accepted, 0.5, 0.0);
            order.push(next);
        }
        order
    }

    #[test]
    fn a_client_with_many_connections_does_not_hold_others_up() {
        let mut sliced = Sliced::default();
        for connection in 0..100 {
            sliced.enter(1, connection, 0.0);
        }
        sliced.next(0.0);
        sliced.note(Slice::GoesOn, 0.5, 0.0);
        sliced.enter(2, 100, 0.0);
        assert_eq!(judged_until(&mut sliced, 100), [0, 100]);
        sliced.enter(2, 101, 0.0);
        assert!(judged_until(&mut sliced, 101).len() <= 3);
    }

    #[test]
    fn a_request_of_many_batches_does_not_hold_others_up_and_goes_on_before_others_of_its_client() {
        let mut sliced = Sliced::default();
        for (client, connection) in [(1, 10), (1, 11), (2, 20)] {
            sliced.enter(client, connection, 0.0);
        }
        let mut order = Vec::new();
        while let Some(next) = sliced.next(0.0) {
            order.push(next);
            let count = order.iter().filter(|other| **other == next).count();
            let is_over = next != 10 || count == 3;
            sliced.note(if is_over { Slice::Accepted } else { Slice::Between }, 1.0, 0.0);
        }
        assert_eq!(order, [10, 20, 10, 10, 11]);
        assert!(sliced.is_empty() && sliced.until.is_empty());
    }

    #[test]
    fn a_connection_waits_for_five_seconds_altogether_and_a_turn_that_has_begun_is_not_ended() {
        let mut sliced = Sliced::default();
        for (client, connection) in [(1, 10), (1, 11), (2, 20)] {
            sliced.enter(client, connection, 100.0);
        }
        assert_eq!(sliced.next(102.0), Some(10));
        assert!(sliced.take_late(105.0).is_empty());
        assert_eq!(sliced.take_late(105.1), [11, 20]);
        assert_eq!(sliced.next(110.0), Some(10));
        sliced.note(Slice::Between, 1.0, 112.0); // it has waited for two seconds
        assert!(sliced.take_late(114.9).is_empty());
        assert_eq!(sliced.take_late(115.1), [10]);
        assert!(sliced.is_empty());
    }
}
