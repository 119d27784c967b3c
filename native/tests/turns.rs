//! The order of clients, compared with that of Python (`tests/engine/test_turns.py`).
#![cfg(target_os = "linux")]
#![allow(clippy::cast_possible_truncation)]

use penstock_native::ring::turns::Turns;

/// Both have these orders.
const ORDERS: &str = include_str!("turns.txt");
const COSTS: [f64; 5] = [0.0002, 0.0008, 0.004, 0.03, 0.5];

/// Numbers that look random: a linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Return the order in which the batches of a random history are begun.
fn order(seed: u64) -> Vec<usize> {
    let mut random = Random(seed);
    let (mut turns, mut begun, mut order) = (Turns::default(), Vec::new(), Vec::new());
    let mut count = 0;
    for _ in 0..240 {
        match random.below(8) {
            0..4 => {
                let client = random.below(8);
                if turns.is_empty() && random.below(2) == 0 {
                    begun.push((client, turns.begin_at_once(client)));
                    order.push(count);
                } else {
                    turns.enter(client, (client, count));
                }
                count += 1;
            }
            4..6 => {
                if let Some(((client, number), expected_s)) = turns.begin_next() {
                    begun.push((client, expected_s));
                    order.push(number);
                }
            }
            _ if begun.is_empty() => {}
            _ => {
                let position = random.below(begun.len() as u64) as usize;
                let (client, expected_s) = begun.remove(position);
                let cost = COSTS[((client + random.below(3)) % 5) as usize];
                turns.settle(client, expected_s, cost);
            }
        }
    }
    while let Some(((_, number), _)) = turns.begin_next() {
        order.push(number);
    }
    order
}

#[test]
fn clients_have_the_same_turns_as_in_python() {
    let lines = (0..16).map(|seed| {
        let numbers: Vec<_> = order(seed).iter().map(usize::to_string).collect();
        numbers.join(" ") + "\n"
    });
    assert_eq!(lines.collect::<String>(), ORDERS);
}
