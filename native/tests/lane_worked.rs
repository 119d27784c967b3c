//! Connections whose batches workers judge, through rings: their bytes to brokers and to Python.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_native::lane::connection::GivenBack;
use penstock_native::lane::exchange::State;
use penstock_native::lane::judging::Sender;
use penstock_native::lane::relay::Limits;
use penstock_native::lane::table::{Action, Table, Topic};
use penstock_native::lane::threads::{Adopted, Lane};
use penstock_native::lane::worked::{Observers, Worked};
use penstock_native::ring;
use penstock_native::ring::context;
use penstock_native::ring::layout::{self, Outcome, Slot};
use penstock_native::ring::memory::Memory;
use penstock_native::ring::pool::Pool;
use penstock_native::ring::reader::Reader;
use penstock_native::ring::sender::{Batch, Late, NOT_BEGUN, Ring};

const LIMITS: Limits = Limits { request_max_bytes: 10_000_000, valid_until: f64::INFINITY };
const VERSION: i16 = 9;

fn request(api_key: i16, number: u8, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(8 + body.len()).unwrap();
    let head = [&length.to_be_bytes()[..], &api_key.to_be_bytes(), &VERSION.to_be_bytes()].concat();
    [&head[..], &[0, 0, 0, number], body].concat()
}

/// A request that is forwarded at once.
fn forwarded(number: u8) -> Vec<u8> {
    request(1, number, b"body")
}

/// A request with a batch for each of some partitions.
fn produce(number: u8, acks: i16, batches: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = vec![0, 1, b'c', 0, 0];
    body.extend(acks.to_be_bytes());
    body.extend([0, 0, 39, 16, 2, 2, b't', u8::try_from(batches.len() + 1).unwrap()]);
    for (partition, records) in batches {
        body.extend([0, 0, 0, *partition, u8::try_from(records.len() + 1).unwrap()]);
        body.extend(*records);
        body.push(0);
    }
    body.extend([0, 0]);
    request(5, number, &body)
}

fn pair() -> (TcpStream, TcpStream) {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    outer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (inner, _) = listening.accept().unwrap();
    inner.set_nonblocking(true).unwrap();
    (outer, inner)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A connection that a lane has, and the workers.
struct Scene {
    lane: Lane,
    table: Arc<Table>,
    rings: Vec<Arc<Ring>>,
    readers: Vec<Reader>,
    client: TcpStream,
    broker: TcpStream,
    number: u64,
    /// The gateway's own ends.
    own: (TcpStream, TcpStream),
}

impl Scene {
    fn new(workers: u64) -> Self {
        let rings: Vec<_> = (1..=workers).map(|of| Arc::new(Ring::new(of, 1).unwrap())).collect();
        let pool = Pool::default();
        pool.set(rings.iter().map(|ring| Some(Arc::clone(ring))).collect());
        let all = |action| vec![action; 10];
        let table = Table::new([(5, 0, all(Action::ProduceWhole))]);
        let worked = Worked::new("t", "policies", b"plan", [7; 16], Arc::new(pool));
        table.know_name(b"t", Topic::Worked(Arc::new(worked)), f64::INFINITY);
        let (table, lane) = (Arc::new(table), Lane::start(1, &[], usize::MAX, 0.0).unwrap());
        let ((client, of_client), (broker, of_broker)) = (pair(), pair());
        let adopted = Adopted {
            client: of_client.as_raw_fd(),
            broker: of_broker.as_raw_fd(),
            client_tls: None,
            broker_tls: None,
            state: State::default(),
            from_client: vec![],
            from_broker: vec![],
            limits: LIMITS,
            sender: None,
        };
        let number = lane.adopt(adopted, Arc::clone(&table)).unwrap().unwrap();
        let readers = rings.iter().map(|ring| reader_of(ring)).collect();
        Self { lane, table, rings, readers, client, broker, number, own: (of_client, of_broker) }
    }

    /// Hand the connection over once more.
    fn adopt(&mut self, sender: Option<Sender>) {
        let adopted = Adopted {
            client: self.own.0.as_raw_fd(),
            broker: self.own.1.as_raw_fd(),
            client_tls: None,
            broker_tls: None,
            state: State::default(),
            from_client: vec![],
            from_broker: vec![],
            limits: LIMITS,
            sender,
        };
        self.number = self.lane.adopt(adopted, Arc::clone(&self.table)).unwrap().unwrap();
    }

    fn send(&mut self, data: &[u8]) {
        self.client.write_all(data).unwrap();
    }

    /// Wait until batches were written into a ring.
    fn written(&self, ring: usize, count: u64) {
        until("no batch is submitted", || self.rings[ring].figures().written == count);
    }

    fn reply(&mut self, ring: usize, slot: Slot, outcome: Outcome) {
        self.readers[ring].reply(slot, outcome, 5);
        self.readers[ring].say();
    }

    /// Wait until a connection is given back.
    fn given_back(&self) -> GivenBack {
        let mut ready = vec![];
        until("it is not given back", || {
            ready.extend(self.lane.ready());
            !ready.is_empty()
        });
        assert_eq!(ready, [self.number]);
        self.taken()
    }

    fn taken(&self) -> GivenBack {
        let back = self.lane.take(self.number).unwrap();
        assert_eq!(self.lane.panics(), 0);
        back
    }

    /// The broker receives these bytes.
    fn receives(&mut self, expected: &[u8]) {
        let mut found = vec![0; expected.len()];
        self.broker.read_exact(&mut found).unwrap();
        assert_eq!(found, expected);
    }

    /// The broker has received nothing else.
    fn receives_nothing(&mut self) {
        self.broker.set_nonblocking(true).unwrap();
        assert!(self.broker.read(&mut [0; 1]).is_err());
        self.broker.set_nonblocking(false).unwrap();
    }

    /// Submit a batch of another client.
    fn submit(&self, ring: usize, records: &[u8]) {
        let plan: Arc<[u8]> = b"plan"[..].into();
        let (connection, thread, version, partition, topic_id) = (1 << 40, 0, 9, 0, [0; 16]);
        let batch = Batch {
            connection,
            thread,
            version,
            partition,
            topic_id,
            plan: &plan,
            context: None,
            records,
            may_wait: true,
        };
        self.rings[ring].submit(&batch).unwrap();
    }

    /// Let the worker of a ring judge a batch of another client.
    fn occupy_with(&mut self, ring: usize, records: &[u8]) -> Slot {
        self.submit(ring, records);
        self.readers[ring].begin_next().unwrap()
    }

    fn occupy(&mut self, ring: usize) -> Slot {
        self.occupy_with(ring, b"x")
    }
}

fn reader_of(ring: &Ring) -> Reader {
    let done: Vec<_> = ring.done().map(|each| each.as_raw_fd()).collect();
    Reader::open(ring.memory().as_raw_fd(), ring.work().as_raw_fd(), &done).unwrap()
}

/// Return the number, and whether it is accepted, of each early outcome.
fn early(back: &GivenBack) -> Vec<(i32, u64, u64, bool)> {
    let outcomes = back.early.iter();
    outcomes.map(|of| (of.partition, of.ring, of.number, of.is_accepted)).collect()
}

/// Two partitions with different rings of two workers, as (partition, ring).
fn two_partitions(scene: &Scene) -> [(u8, usize); 2] {
    let pool = Pool::default();
    pool.set(scene.rings.iter().map(|ring| Some(Arc::clone(ring))).collect());
    let ring_of =
        |of: u8| usize::try_from(pool.ring(b"t", of.into()).unwrap().number() - 1).unwrap();
    let other = (1..20).find(|partition| ring_of(*partition) != ring_of(0)).unwrap();
    [(0, ring_of(0)), (other, ring_of(other))]
}

#[test]
fn a_batch_that_is_not_begun_when_its_client_leaves_is_left_out_and_pythons() {
    for is_half in [true, false] {
        let mut scene = Scene::new(1);
        let slot = scene.occupy(0);
        let sent = produce(1, 1, &[(0, b"data")]);
        scene.send(&sent);
        scene.written(0, 2);
        if is_half {
            scene.client.shutdown(Shutdown::Write).unwrap();
        } else {
            scene.client = pair().0;
        }
        let back = scene.given_back();
        assert_eq!((&back.from_client, early(&back)), (&sent, vec![]));
        assert!(!back.client_failed && !back.broker_failed);
        scene.reply(0, slot, Outcome::Accepted);
        assert!(scene.readers[0].begin_next().is_none());
        until("it has no outcome", || {
            scene.readers[0].say();
            scene.rings[0].take(0);
            scene.rings[0].figures().answered == 2
        });
        assert_eq!(scene.rings[0].take_late(), Late::default());
        scene.receives_nothing();
    }
}

#[test]
fn a_batch_that_waits_before_the_ring_when_its_client_leaves_is_never_written() {
    let mut scene = Scene::new(1);
    let large = vec![0; layout::LONGEST - 4];
    let slot = scene.occupy_with(0, &large);
    scene.submit(0, &large); // now the ring is full
    scene.send(&produce(1, 1, &[(0, b"data")]));
    until("it does not wait", || scene.rings[0].figures().waiting == 1);
    scene.client.shutdown(Shutdown::Write).unwrap();
    assert!(scene.given_back().early.is_empty());
    scene.reply(0, slot, Outcome::Accepted);
    let slot = scene.readers[0].begin_next().unwrap();
    scene.reply(0, slot, Outcome::Accepted);
    until("it still waits", || {
        let figures = scene.rings[0].figures();
        figures.waiting == 0 && figures.answered == 2
    });
    assert_eq!(scene.rings[0].figures().written, 2);
}

#[test]
fn a_batch_in_the_workers_hand_when_its_client_leaves_is_judged_once_for_python() {
    for acks in [1, 0] {
        let mut scene = Scene::new(1);
        let sent = [produce(1, acks, &[(0, b"data")]), forwarded(2)].concat();
        scene.send(&sent);
        scene.written(0, 1);
        let slot = scene.readers[0].begin_next().unwrap();
        scene.client.shutdown(Shutdown::Write).unwrap();
        let back = scene.given_back();
        assert_eq!((&back.from_client, early(&back)), (&sent, vec![(0, 1, 1, false)]));
        scene.reply(0, slot, Outcome::Accepted);
        let mut late = vec![];
        until("Python does not get its outcome", || {
            late.extend(scene.rings[0].take_late().accepted);
            !late.is_empty()
        });
        assert_eq!(late, [1]);
        scene.receives_nothing();
    }
}

#[test]
fn a_client_that_resets_its_connection_is_noticed() {
    let mut scene = Scene::new(1);
    scene.send(&forwarded(1));
    scene.receives(&forwarded(1));
    scene.broker.write_all(&[0, 0, 0, 4, 0, 0, 0, 1]).unwrap();
    until("there is no response", || scene.client.peek(&mut [0; 8]).unwrap() == 8);
    scene.send(&produce(2, 1, &[(0, b"data")]));
    scene.written(0, 1);
    scene.readers[0].begin_next().unwrap();
    scene.client = pair().0; // what it has not read makes it a reset
    let back = scene.given_back();
    assert_eq!(early(&back), [(0, 1, 1, false)]);
    assert_eq!(back.from_client, produce(2, 1, &[(0, b"data")]));
}

/// The response to a request with a batch of topic t: version 9, an error code.
fn responded(number: u8, code: i16) -> Vec<u8> {
    let mut body = vec![0, 0, 0, number, 0, 2, 2, b't', 2, 0, 0, 0, 0];
    body.extend(code.to_be_bytes());
    body.extend([0xFF; 24]);
    body.extend([1, 0, 0, 0, 0, 0, 0, 0, 0]);
    [&i32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

/// A scene with a request in flight, and another whose batch a worker has.
fn with_a_batch_behind_another() -> (Scene, Vec<u8>, Slot) {
    let mut scene = Scene::new(1);
    let (first, behind) = (produce(1, 1, &[(0, b"data")]), produce(2, 1, &[(0, b"more")]));
    scene.send(&first);
    scene.written(0, 1);
    let slot = scene.readers[0].begin_next().unwrap();
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives(&first);
    scene.send(&behind);
    scene.written(0, 2);
    let slot = scene.readers[0].begin_next().unwrap();
    (scene, behind, slot)
}

#[test]
fn a_batch_that_waits_behind_an_error_of_the_broker_is_pythons() {
    let (mut scene, behind, slot) = with_a_batch_behind_another();
    let response = responded(1, 6);
    scene.broker.write_all(&response).unwrap();
    let back = scene.given_back();
    assert_eq!((back.from_broker, back.to_client), (response, vec![]));
    assert_eq!((&back.from_client, back.state.expected.len()), (&behind, 1));
    assert_eq!(back.early.len(), 1, "it is judged once");
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives_nothing();
}

#[test]
fn a_batch_that_waits_behind_a_success_of_the_broker_is_forwarded() {
    let (mut scene, behind, slot) = with_a_batch_behind_another();
    let response = responded(1, 0);
    let (start, rest) = response.split_at(20);
    scene.broker.write_all(start).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    scene.broker.write_all(rest).unwrap();
    let mut found = vec![0; response.len()];
    scene.client.read_exact(&mut found).unwrap();
    assert_eq!(found, response);
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives(&behind);
    // Nothing waits behind the next response: it is not read.
    scene.broker.write_all(&responded(2, 6)).unwrap();
    scene.client.read_exact(&mut found).unwrap();
    assert_eq!(found, responded(2, 6));
}

#[test]
fn only_batches_without_a_producer_id_are_judged_where_others_may_have_to_change() {
    let mut scene = Scene::new(1);
    let batch = |producer_id: i64| {
        let mut header = vec![0; 61];
        header[43..51].copy_from_slice(&producer_id.to_be_bytes());
        header
    };
    let pool = Pool::default();
    pool.set(vec![Some(Arc::clone(&scene.rings[0]))]);
    let worked = Worked::new("t", "policies", b"plan", [7; 16], Arc::new(pool));
    let worked = Arc::new(worked.only_unnumbered(true));
    scene.table.know_name(b"t", Topic::Worked(worked), f64::INFINITY);
    scene.table.forget_numbered(b"t");
    let sent = produce(1, 1, &[(0, &batch(-1))]);
    scene.send(&sent);
    scene.written(0, 1);
    let slot = scene.readers[0].begin_next().unwrap();
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives(&sent);
    let sent = produce(2, 1, &[(0, &batch(5))]);
    scene.send(&sent);
    let back = scene.given_back();
    assert_eq!((&back.from_client, early(&back)), (&sent, vec![]));
    assert_eq!(scene.rings[0].figures().written, 1);
}

#[test]
fn a_policy_that_takes_the_client_is_given_that_of_each_request() {
    let mut scene = Scene::new(1);
    let pool = Pool::default();
    pool.set(vec![Some(Arc::clone(&scene.rings[0]))]);
    let worked = Worked::new("t", "policies", b"plan", [7; 16], Arc::new(pool));
    let topic = Topic::Worked(Arc::new(worked.with_client(true)));
    scene.table.know_name(b"t", topic.clone(), f64::INFINITY);
    let sent = produce(1, 1, &[(0, b"data")]);
    scene.send(&sent);
    // Nothing is known of the client that could be written: Python has it judged.
    assert_eq!(scene.given_back().from_client, sent);
    scene.adopt(Some(sender()));
    scene.send(&sent);
    scene.written(0, 1);
    let slot = scene.readers[0].begin_next().unwrap();
    let context = scene.readers[0].context(&slot).unwrap();
    assert_eq!(context::decoded(&context), Some([Some("User:a"), Some("c"), None]));
    assert_eq!(scene.readers[0].records(&slot).unwrap(), b"data");
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives(&sent);
    // A client id that is not UTF-8.
    let mut sent = produce(2, 1, &[(0, b"data")]);
    let at = sent.iter().position(|byte| *byte == b'c').unwrap();
    sent[at] = 0xFF;
    scene.send(&sent);
    assert_eq!(scene.given_back().from_client, sent);
}

/// A client.
fn sender() -> Sender {
    Sender { principal: Some("User:a".into()), address: None, number: 77 }
}

/// The topic, whose policies only observe, or clients wait for some of them.
fn observed(scene: &Scene, is_waited_for: bool, max_batches: usize) -> Arc<Pool> {
    let pool = Pool::of(ring::observed::Observers::new(&[1.0], max_batches, 100_000, 100));
    pool.set(vec![Some(Arc::clone(&scene.rings[1]))]);
    let pool = Arc::new(pool);
    let observers = Observers::new("t", "watch", b"watched", [7; 16], true, Arc::clone(&pool));
    let waited = Pool::default();
    waited.set(vec![Some(Arc::clone(&scene.rings[0]))]);
    let worked = if is_waited_for {
        Worked::new("t", "policies", b"plan", [7; 16], Arc::new(waited))
    } else {
        Worked::unawaited("t")
    };
    let topic = Topic::Worked(Arc::new(worked.beside(Arc::default(), Some(observers))));
    scene.table.know_name(b"t", topic, f64::INFINITY);
    pool
}

/// A scene of a client that is known.
fn scene_of_sender() -> Scene {
    let mut scene = Scene::new(2);
    scene.lane.take(scene.number).unwrap();
    scene.adopt(Some(sender()));
    scene
}

#[test]
fn a_batch_that_is_only_observed_is_forwarded_at_once() {
    let mut scene = scene_of_sender();
    let pool = observed(&scene, false, 100);
    for number in 1..=3 {
        let sent = produce(number, 1, &[(0, b"data")]);
        scene.send(&sent);
        scene.receives(&sent);
    }
    assert_eq!(scene.rings[1].figures().written, 3);
    for outcome in [Outcome::Accepted, Outcome::Verdict, Outcome::LeftOut] {
        let slot = scene.readers[1].begin_next().unwrap();
        let context = scene.readers[1].context(&slot).unwrap();
        assert_eq!(context::decoded(&context), Some([Some("User:a"), Some("c"), None]));
        assert_eq!(scene.readers[1].plan(&slot).unwrap(), b"watched");
        assert_eq!(scene.readers[1].records(&slot).unwrap(), b"data");
        scene.reply(1, slot, outcome);
    }
    scene.rings[1].look();
    let (counted, taken) = (pool.observers.collect(), pool.observers.take());
    assert_eq!((counted.accepted.len(), counted.waiting.len()), (1, 0));
    let refused: Vec<_> = taken.refused.iter().map(|of| (of.ring, of.number)).collect();
    assert_eq!((refused, taken.returned.len()), (vec![(2, 2)], 1));
    assert_eq!(pool.observers.open_count(), 0);
}

#[test]
fn what_is_observed_beside_is_observed_once_it_is_accepted() {
    for outcome in [Outcome::Accepted, Outcome::Verdict] {
        let mut scene = scene_of_sender();
        let pool = observed(&scene, true, 100);
        let sent = produce(1, 1, &[(0, b"data")]);
        scene.send(&sent);
        scene.written(0, 1);
        assert_eq!(scene.rings[1].figures().written, 0);
        let slot = scene.readers[0].begin_next().unwrap();
        scene.reply(0, slot, outcome);
        if outcome == Outcome::Accepted {
            scene.receives(&sent);
            assert_eq!((scene.rings[1].figures().written, pool.observers.open_count()), (1, 1));
        } else {
            // Python has it observed.
            assert_eq!(scene.given_back().from_client, sent);
            assert_eq!((scene.rings[1].figures().written, pool.observers.open_count()), (0, 0));
        }
    }
}

#[test]
fn what_is_observed_comes_back_from_a_worker_that_ends_but_for_the_batch_in_its_hand() {
    let mut scene = scene_of_sender();
    let pool = observed(&scene, false, 3);
    let sent: Vec<_> = (1..=4).map(|number| produce(number, 1, &[(0, b"data")])).collect();
    scene.send(&sent.concat());
    scene.receives(&sent.concat());
    let slot = scene.readers[1].begin_next().unwrap();
    assert_eq!(scene.rings[1].close(), b"watched");
    let taken = pool.observers.take();
    assert_eq!((taken.refused.len(), taken.returned.len()), (0, 2));
    assert_eq!(taken.left_out.values().copied().collect::<Vec<_>>(), [(1, 0)]);
    taken.returned.iter().for_each(|of| pool.observers.release(of.size()));
    // A batch for which there is no ring.
    pool.set(vec![None]);
    scene.send(&sent[0]);
    scene.receives(&sent[0]);
    assert_eq!(pool.observers.take().returned.len(), 1);
    assert_eq!(pool.observers.open_count(), 1);
    scene.rings[1].abandon();
    let refused = pool.observers.take().refused;
    assert_eq!(refused.iter().map(|of| of.number).collect::<Vec<_>>(), [1]);
    scene.reply(1, slot, Outcome::Accepted);
    scene.rings[1].look();
    assert_eq!(pool.observers.open_count(), 0);
    assert!(pool.observers.collect().accepted.is_empty());
}

#[test]
fn a_batch_has_the_room_of_those_that_have_an_outcome_which_nobody_has_read() {
    let mut scene = scene_of_sender();
    let pool = observed(&scene, false, 1);
    for number in 1..=3 {
        let sent = produce(number, 1, &[(0, b"data")]);
        scene.send(&sent);
        scene.receives(&sent);
        let slot = scene.readers[1].begin_next().unwrap();
        scene.reply(1, slot, Outcome::Accepted);
    }
    assert!(pool.observers.take().left_out.is_empty());
}

#[test]
fn python_has_what_is_observed_judged_where_no_ring_is_to_have_it() {
    let mut scene = scene_of_sender();
    let pool = observed(&scene, false, 100);
    let beside = Arc::new(pool.beside());
    let observers = Observers::new("t", "watch", b"watched", [7; 16], false, beside);
    let waited = Pool::default();
    waited.set(vec![Some(Arc::clone(&scene.rings[0]))]);
    let worked = Worked::new("t", "policies", b"plan", [7; 16], Arc::new(waited));
    let topic = Topic::Worked(Arc::new(worked.beside(Arc::default(), Some(observers))));
    scene.table.know_name(b"t", topic, f64::INFINITY);
    let sent = produce(1, 1, &[(0, b"data")]);
    scene.send(&sent);
    scene.written(0, 1);
    let slot = scene.readers[0].begin_next().unwrap();
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives(&sent);
    let returned = pool.observers.take().returned;
    assert_eq!((returned.len(), scene.rings[1].figures().written), (1, 0));
    let head = &returned[0].head;
    assert_eq!(context::decoded(&head.context), Some([Some("User:a"), Some("c"), None]));
    // Its client is the same as in Python.
    assert_eq!(head.connection, 77);
}

#[test]
fn nobody_is_woken_for_an_outcome_that_nobody_waits_for_unless_a_batch_waits_for_its_place() {
    let mut scene = scene_of_sender();
    let pool = observed(&scene, false, 10_000);
    let count = 600;
    for number in 0..count {
        let sent = produce(1, 0, &[(0, b"")]);
        scene.send(&sent);
        scene.receives(&sent);
        if number == 0 {
            let slot = scene.readers[1].begin_next().unwrap();
            scene.reply(1, slot, Outcome::Accepted);
            assert_eq!(scene.rings[1].figures().answered, 0);
        }
    }
    assert!(scene.rings[1].figures().waiting > 0);
    let mut judged = 1;
    until("a batch waits for its place, and its worker for a batch", || {
        while let Some(slot) = scene.readers[1].begin_next() {
            scene.readers[1].reply(slot, Outcome::Accepted, 5);
            scene.readers[1].say();
            judged += 1;
        }
        judged == count
    });
    scene.rings[1].look();
    assert_eq!(pool.observers.open_count(), 0);
}

#[test]
fn the_end_of_a_client_is_found_behind_a_batch_that_is_accepted_first() {
    let mut scene = Scene::new(1);
    let sent = produce(1, 1, &[(0, b"data")]);
    scene.send(&sent);
    scene.written(0, 1);
    let slot = scene.readers[0].begin_next().unwrap();
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives(&sent);
    scene.client.shutdown(Shutdown::Write).unwrap();
    let back = scene.given_back();
    assert_eq!((early(&back), back.from_client.len(), back.state.expected.len()), (vec![], 0, 1));
}

#[test]
fn nothing_overtakes_a_batch_that_is_recalled() {
    for is_begun in [true, false] {
        let mut scene = Scene::new(1);
        let all: Vec<_> = [
            forwarded(1),
            produce(2, 1, &[(0, b"first")]),
            produce(3, 1, &[(0, b"second")]),
            forwarded(4),
            produce(5, 1, &[(0, b"third")]),
        ]
        .to_vec();
        scene.send(&all.concat());
        scene.written(0, 1);
        let slot = scene.readers[0].begin_next().unwrap();
        scene.receives(&all[0]);
        scene.receives_nothing();
        scene.reply(0, slot, Outcome::Accepted);
        scene.written(0, 2);
        if is_begun {
            scene.readers[0].begin_next().unwrap();
        }
        assert_eq!(scene.rings[0].recall().is_empty(), !is_begun);
        let back = scene.given_back();
        assert_eq!(back.from_client, all[2..].concat());
        assert_eq!(early(&back), [(0, 1, if is_begun { 2 } else { NOT_BEGUN }, false)]);
        let expected: Vec<_> = back.state.expected.iter().map(|of| of.correlation_id).collect();
        assert_eq!((expected, back.to_broker, back.forwarded), (vec![1, 2], vec![], 2));
        scene.receives(&all[1]);
        scene.receives_nothing();
    }
}

#[test]
fn what_is_judged_when_python_takes_a_connection_is_not_judged_again() {
    let mut scene = Scene::new(2);
    let [(first, of_first), (second, of_second)] = two_partitions(&scene);
    let sent = produce(1, 1, &[(first, b"one"), (second, b"two")]);
    scene.send(&sent);
    scene.written(of_first, 1);
    scene.written(of_second, 1);
    scene.readers[of_second].begin_next().unwrap();
    let slot = scene.readers[of_first].begin_next().unwrap();
    scene.readers[of_first].reply(slot, Outcome::Accepted, 5); // its thread does not know it
    let back = scene.taken();
    let (of_first, of_second) = (of_first as u64 + 1, of_second as u64 + 1);
    let both = [(0, of_first, 1, true), (second.into(), of_second, 1, false)];
    assert_eq!((back.from_client.clone(), early(&back)), (sent, both.to_vec()));
}

#[test]
fn a_request_of_which_a_later_batch_finds_no_place_is_pythons_with_the_outcomes_before() {
    for outcome in [Outcome::Accepted, Outcome::Verdict] {
        let mut scene = Scene::new(2);
        let [(first, of_first), (second, of_second)] = two_partitions(&scene);
        scene.rings[of_second].recall();
        let sent = produce(1, 1, &[(first, b"one"), (second, b"two"), (first + 40, b"three")]);
        scene.send(&sent);
        scene.written(of_first, 1);
        assert!(scene.lane.ready().is_empty());
        let slot = scene.readers[of_first].begin_next().unwrap();
        scene.reply(of_first, slot, outcome);
        let back = scene.given_back();
        let ring = scene.rings[of_first].number();
        let is_accepted = outcome == Outcome::Accepted;
        assert_eq!((&back.from_client, early(&back)), (&sent, vec![(0, ring, 1, is_accepted)]));
        assert_eq!(scene.rings.iter().map(|ring| ring.figures().written).sum::<u64>(), 1);
        scene.receives_nothing();
    }
}

#[test]
fn a_request_whose_first_batch_finds_no_place_is_pythons_as_a_whole() {
    let mut scene = Scene::new(2);
    let [(first, of_first), (second, of_second)] = two_partitions(&scene);
    scene.rings[of_first].close();
    let sent = produce(1, 1, &[(first, b"one"), (second, b"two")]);
    scene.send(&sent);
    let back = scene.given_back();
    assert_eq!((&back.from_client, early(&back)), (&sent, vec![]));
    assert_eq!(scene.rings[of_second].figures().written, 0);
}

#[test]
fn a_verdict_of_one_batch_holds_up_none_of_its_request() {
    let mut scene = Scene::new(2);
    let [(first, of_first), (second, of_second)] = two_partitions(&scene);
    let sent = produce(1, 1, &[(first, b"one"), (second, b"two")]);
    scene.send(&sent);
    scene.written(of_first, 1);
    scene.written(of_second, 1);
    let slot = scene.readers[of_first].begin_next().unwrap();
    scene.reply(of_first, slot, Outcome::Verdict);
    let slot = scene.readers[of_second].begin_next().unwrap();
    scene.reply(of_second, slot, Outcome::Accepted);
    let back = scene.given_back();
    let outcomes = early(&back);
    assert_eq!((outcomes.len(), outcomes[0].3, outcomes[1].3), (2, false, true));
    scene.receives_nothing();
}

#[test]
fn what_a_worker_writes_into_the_memory_is_not_forwarded() {
    let mut scene = Scene::new(1);
    let sent = produce(1, 1, &[(0, b"data")]);
    scene.send(&sent);
    scene.written(0, 1);
    let memory = Memory::open(scene.rings[0].memory().as_raw_fd(), layout::BYTES).unwrap();
    assert!(memory.write(layout::DATA, &[0xEE; 4096]));
    let slot = scene.readers[0].begin_next().unwrap();
    scene.reply(0, slot, Outcome::Accepted);
    scene.receives(&sent);
}

#[test]
fn a_verdict_that_is_a_lie_passes_nothing() {
    // The outcomes of a batch that is not written, of another, of none, and an unknown outcome.
    let right = layout::Reply { number: 1, took_us: 1, outcome: Outcome::Accepted };
    let numbers = [0, 2, u64::MAX].map(|number| layout::Reply { number, ..right }.encode());
    let mut unknown = right.encode();
    unknown[12] = 9;
    for lie in numbers.into_iter().chain([unknown]) {
        let mut scene = Scene::new(1);
        let sent = produce(1, 1, &[(0, b"data")]);
        scene.send(&sent);
        scene.written(0, 1);
        let memory = Memory::open(scene.rings[0].memory().as_raw_fd(), layout::BYTES).unwrap();
        scene.readers[0].begin_next().unwrap();
        assert!(memory.write(layout::reply(0, 0), &lie));
        memory.number(layout::outcomes(0)).unwrap().store(1, std::sync::atomic::Ordering::SeqCst);
        let slot = Slot { thread: 9, ..Slot::default() };
        scene.readers[0].reply(slot, Outcome::Accepted, 0); // of a thread that is not there
        let woken = scene.rings[0].done().next().unwrap().try_clone_to_owned().unwrap();
        std::fs::File::from(woken).write_all(&[1]).unwrap();
        let back = scene.given_back();
        let left_out = vec![(0, 1, NOT_BEGUN, false)];
        assert_eq!((&back.from_client, early(&back)), (&sent, left_out));
        assert!(scene.rings[0].figures().is_broken);
        scene.receives_nothing();
    }
}

#[test]
fn a_batch_whose_topic_was_forgotten_meanwhile_is_pythons_with_its_outcome() {
    let mut scene = Scene::new(1);
    let sent = produce(1, 1, &[(0, b"data")]);
    scene.send(&sent);
    scene.written(0, 1);
    scene.table.forget(b"t");
    let slot = scene.readers[0].begin_next().unwrap();
    scene.reply(0, slot, Outcome::Accepted);
    let back = scene.given_back();
    assert_eq!((&back.from_client, early(&back)), (&sent, vec![(0, 1, 1, true)]));
    scene.receives_nothing();
}
