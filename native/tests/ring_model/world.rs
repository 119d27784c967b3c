//! The work of threads and of Python around rings, and the conditions that hold.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use penstock_native::lane::counts::Counts;
use penstock_native::lane::epoll::{Epoll, Waker};
use penstock_native::lane::exchange::State;
use penstock_native::lane::judging::Early;
use penstock_native::lane::relay::{Limits, Relay};
use penstock_native::lane::table::{Action, Table, Topic};
use penstock_native::lane::waiting::Rings;
use penstock_native::lane::worked::Worked;
use penstock_native::ring::layout::{LONGEST, Outcome};
use penstock_native::ring::pool::Pool;
use penstock_native::ring::sender::{Batch, Judged, NOT_BEGUN, Ring};

use crate::random::Random;
use crate::worker::{Verdict, Worker, is_readable, verdict_of};

const THREADS: usize = 3;
const TOPICS: [&str; 2] = ["orders", "payments"];
const PARTITIONS: u64 = 6;
const LIMITS: Limits = Limits { request_max_bytes: 1 << 30, valid_until: f64::INFINITY };
/// So many bytes wait in a ring at most, and no more.
const WAITING_MAX_BATCHES: usize = 16;

/// What may happen in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing but what is usual.
    Healthy,
    /// Recalls, kills, reloads, altered topics, clients that leave.
    Ends,
    /// The same, and nonsense.
    Nonsense,
    /// Batches that fill rings.
    Full,
}

/// How often things happened.
#[derive(Debug, Default)]
pub struct Figures {
    /// Requests that a thread forwarded.
    pub forwarded: u64,
    /// Requests that went through Python.
    pub pythons: u64,
    /// Batches that Python found accepted.
    pub accepted_early: u64,
    /// Batches that Python found refused.
    pub refused: u64,
    /// Batches whose verdict came after their recall.
    pub late: u64,
    /// Verdicts that were lost with a worker.
    pub lost: u64,
    /// Batches that were given back without an outcome.
    pub judged_again: u64,
    /// Rings with nonsense.
    pub broken: u64,
    /// Batches that waited for room.
    pub waited: u64,
}

impl Figures {
    pub fn add(&mut self, other: &Self) {
        self.forwarded += other.forwarded;
        self.pythons += other.pythons;
        self.accepted_early += other.accepted_early;
        self.refused += other.refused;
        self.late += other.late;
        self.lost += other.lost;
        self.judged_again += other.judged_again;
        self.broken += other.broken;
        self.waited += other.waited;
    }
}

/// A batch of a request.
struct Sent {
    id: u64,
    topic: usize,
    partition: i32,
    records: Vec<u8>,
}

/// A request that has neither been forwarded nor answered.
struct Request {
    frame: Vec<u8>,
    batches: Vec<Sent>,
}

/// The numbers of a ring, and of a batch in it.
type Key = (u64, u64);

/// A connection that a thread has.
struct Native {
    number: u64,
    thread: usize,
    configuration: usize,
    relay: Relay,
    /// Received, and not forwarded.
    waiting: Vec<u8>,
    stopped: bool,
    /// Whether it has bytes that were received before the thread had it.
    is_new: bool,
    /// The rings that batches were given to, by their ids.
    places: HashMap<u64, u64>,
}

/// A connection that Python has: its bytes, and the outcomes that it waits for.
struct Held {
    waiting: Vec<u8>,
    early: Vec<Early>,
    /// The batches for whose verdict it waits, by ring and number: their ids and plans.
    expected: HashMap<Key, (u64, Arc<[u8]>)>,
    has_begun: bool,
}

#[derive(Default)]
struct Client {
    native: Option<Native>,
    held: Option<Held>,
    /// Sent, and received by nobody.
    unread: Vec<u8>,
    requests: VecDeque<Request>,
    sent_count: u64,
}

struct Thread {
    waker: Arc<Waker>,
    waits: Rings,
    /// Those rings.
    rings: Vec<Arc<Ring>>,
    /// Taken of rings, and not handled.
    inbox: VecDeque<(Arc<Ring>, Judged)>,
}

struct Configuration {
    table: Arc<Table>,
    pool: Arc<Pool>,
    /// The plans of topics in force.
    plans: Vec<Arc<[u8]>>,
    /// The numbers of the rings of its slots.
    slots: Vec<Option<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Serves,
    Blocked,
    Closing,
    Killed,
    Forgotten,
}

struct Process {
    worker: Worker,
    configuration: usize,
    slot: usize,
    life: Life,
    /// Whether batches were recalled, so that they may be left out.
    is_disturbed: bool,
}

struct World {
    seed: u64,
    mode: Mode,
    random: Random,
    most_bytes: u64,
    most_us: u64,
    configurations: Vec<Configuration>,
    processes: HashMap<u64, Process>,
    threads: Vec<Thread>,
    clients: Vec<Client>,
    /// Verdicts that nobody waited for yet.
    verdicts: HashMap<Key, Option<Verdict>>,
    answered: HashSet<(u64, u64)>,
    counts: Mutex<Counts>,
    last_connection: u64,
    last_id: u64,
    last_plan: u64,
    all_plans: Vec<Arc<[u8]>>,
    figures: Figures,
}

/// Run a history to its end.
pub fn run(seed: u64, mode: Mode) -> Figures {
    let mut world = World::new(seed, mode);
    // In a short history, nothing that comes later puts a mistake right.
    let is_long = mode == Mode::Full || seed.is_multiple_of(3);
    let steps = if is_long { 150 + world.random.below(500) } else { 60 };
    for _ in 0..steps {
        world.step();
        world.check();
    }
    world.finish();
    world.figures
}

impl World {
    fn new(seed: u64, mode: Mode) -> Self {
        let mut random = Random::of(seed * 4 + mode as u64);
        let most_bytes = match mode {
            Mode::Full => [200_000, 900_000][random.below(2) as usize],
            _ => [10, 2_000][random.below(2) as usize],
        };
        let threads = (0..THREADS as u16).map(|number| {
            let (epoll, waker) = (Arc::new(Epoll::new().unwrap()), Arc::new(Waker::new().unwrap()));
            Thread {
                waits: Rings::new(number, epoll, Arc::clone(&waker)),
                waker,
                rings: Vec::new(),
                inbox: VecDeque::new(),
            }
        });
        let mut world = Self {
            seed,
            mode,
            most_bytes,
            most_us: [1, 100, 40_000][random.below(3) as usize],
            threads: threads.collect(),
            clients: Vec::new(),
            random,
            configurations: Vec::new(),
            processes: HashMap::new(),
            verdicts: HashMap::new(),
            answered: HashSet::new(),
            counts: Mutex::default(),
            last_connection: 0,
            last_id: 0,
            last_plan: 0,
            all_plans: Vec::new(),
            figures: Figures::default(),
        };
        world.configure();
        for _ in 0..2 + world.random.below(12) {
            world.clients.push(Client::default());
        }
        world
    }

    /// Put a new configuration in force.
    fn configure(&mut self) {
        let rows = [(0, 0, vec![Action::ProduceWhole; 14])];
        let slots = 1 + self.random.below(3) as usize;
        self.configurations.push(Configuration {
            table: Arc::new(Table::new(rows)),
            pool: Arc::default(),
            plans: Vec::new(),
            slots: vec![None; slots],
        });
        for topic in 0..TOPICS.len() {
            self.know(topic);
        }
        let place = self.configurations.len() - 1;
        for slot in 0..slots {
            self.start(place, slot);
        }
    }

    /// Let a topic of the configuration in force have another plan.
    fn know(&mut self, topic: usize) {
        self.last_plan += 1;
        let plan = format!("{} {}", TOPICS[topic], self.last_plan);
        let configuration = self.configurations.last_mut().unwrap();
        let pool = Arc::clone(&configuration.pool);
        let worked = Worked::new(TOPICS[topic], "P", plan.as_bytes(), [0; 16], pool);
        let plan = Arc::clone(&worked.plan);
        let name = TOPICS[topic].as_bytes();
        configuration.table.forget(name);
        configuration.table.know_name(name, Topic::Worked(Arc::new(worked)), f64::INFINITY);
        self.all_plans.push(Arc::clone(&plan));
        if topic < configuration.plans.len() {
            configuration.plans[topic] = plan;
        } else {
            configuration.plans.push(plan);
        }
    }

    /// Start a worker for a slot.
    fn start(&mut self, configuration: usize, slot: usize) {
        let number = self.processes.len() as u64 + 1;
        let ring = Arc::new(Ring::new(number, THREADS).unwrap());
        let worker = Worker::new(ring, self.random.chance(3), self.most_us);
        let life = Life::Serves;
        let process = Process { worker, configuration, slot, life, is_disturbed: false };
        self.processes.insert(number, process);
        self.configurations[configuration].slots[slot] = Some(number);
        self.follow(configuration);
    }

    /// Let the workers that serve have the batches of their slots.
    fn follow(&self, configuration: usize) {
        let of = &self.configurations[configuration];
        let rings = of.slots.iter().map(|number| {
            let process = number.and_then(|number| self.processes.get(&number))?;
            (process.life == Life::Serves).then(|| Arc::clone(&process.worker.ring))
        });
        of.pool.set(rings.collect());
    }

    // Events

    fn step(&mut self) {
        let event = self.random.below(100);
        match event {
            0..14 => self.send(),
            14..24 => self.receive_any(),
            24..48 => {
                let thread = self.random.below(THREADS as u64) as usize;
                self.thread(thread);
            }
            48..82 => {
                let number = self.any_process();
                let process = self.processes.get_mut(&number).unwrap();
                process.worker.step(&mut self.random);
            }
            82..86 => {
                let number = self.any_process();
                self.deliver(number);
            }
            86..88 => self.put_late(),
            88..94 => {
                let client = self.random.below(self.clients.len() as u64) as usize;
                self.python(client);
            }
            _ => self.end_something(),
        }
    }

    fn any_process(&mut self) -> u64 {
        let count = self.processes.len() as u64;
        // Most of those that serve.
        (0..4).fold(0, |found, _| {
            let serves = self.processes.get(&found).is_some_and(|of| of.life == Life::Serves);
            if serves { found } else { 1 + self.random.below(count) }
        })
    }

    fn end_something(&mut self) {
        let client = self.random.below(self.clients.len() as u64) as usize;
        let number = self.any_process();
        let kinds = match self.mode {
            Mode::Healthy => return,
            Mode::Full if !self.random.chance(4) => return,
            Mode::Full => 8,
            _ => 26,
        };
        match self.random.below(kinds) {
            0..4 => self.recall(number),
            4..8 => self.resume(number),
            8 => self.crash(number),
            9 => self.kill(number),
            10 => self.close(number),
            11..15 => {
                self.bury(number);
            }
            15..17 => self.take_back(client),
            17 => self.leave(client),
            18 => {
                let topic = self.random.below(TOPICS.len() as u64) as usize;
                self.know(topic);
            }
            19 if self.random.chance(4) => self.reload(),
            20 if self.random.chance(4) => {
                self.processes.get_mut(&number).unwrap().worker.reads = false;
            }
            20..26 if self.mode == Mode::Nonsense => {
                // Never the first worker.
                let process = self.processes.get_mut(&number).unwrap();
                if process.worker.runs && number > 1 {
                    process.worker.lie(&mut self.random);
                }
            }
            _ => {}
        }
    }

    fn send(&mut self) {
        let place = self.random.below(self.clients.len() as u64) as usize;
        if self.clients[place].sent_count > 100 {
            return;
        }
        let mut batches = Vec::new();
        let mut body = 1_i16.to_be_bytes().to_vec();
        body.extend(b"c");
        body.extend((-1_i16).to_be_bytes());
        body.extend(1_i16.to_be_bytes());
        body.extend(10_000_i32.to_be_bytes());
        let first = self.random.below(TOPICS.len() as u64) as usize;
        let topics = if self.random.chance(4) { TOPICS.len() } else { 1 };
        body.extend((topics as i32).to_be_bytes());
        for topic in (0..topics).map(|topic| (first + topic) % TOPICS.len()) {
            body.extend((TOPICS[topic].len() as i16).to_be_bytes());
            body.extend(TOPICS[topic].as_bytes());
            let partition = self.random.below(PARTITIONS);
            let partitions = if self.random.chance(3) { 1 + self.random.below(3) } else { 1 };
            body.extend((partitions as i32).to_be_bytes());
            for partition in partition..partition + partitions {
                let partition = (partition % PARTITIONS) as i32;
                self.last_id += 1;
                let mut records = self.last_id.to_le_bytes().to_vec();
                let size = self.random.below(self.most_bytes) as usize;
                records.resize(8 + size, self.random.below(256) as u8);
                body.extend(partition.to_be_bytes());
                body.extend((records.len() as i32).to_be_bytes());
                body.extend(&records);
                batches.push(Sent { id: self.last_id, topic, partition, records });
            }
        }
        let mut frame = ((8 + body.len()) as i32).to_be_bytes().to_vec();
        frame.extend(0_i16.to_be_bytes());
        frame.extend(8_i16.to_be_bytes());
        frame.extend((self.last_id as i32).to_be_bytes());
        frame.extend(body);
        let client = &mut self.clients[place];
        client.unread.extend(&frame);
        client.requests.push_back(Request { frame, batches });
        client.sent_count += 1;
        if client.native.is_none() && client.held.is_none() {
            self.adopt(place, Vec::new());
        }
    }

    /// Let a thread have a connection, with bytes that Python received.
    fn adopt(&mut self, place: usize, waiting: Vec<u8>) {
        let configuration = self.configurations.len() - 1;
        let table = Arc::clone(&self.configurations[configuration].table);
        let relay = Relay::new(State::default(), table, LIMITS).unwrap();
        self.last_connection += 1;
        let number = self.last_connection;
        self.clients[place].native = Some(Native {
            number,
            thread: number as usize % THREADS,
            configuration,
            relay,
            is_new: !waiting.is_empty(),
            waiting,
            stopped: false,
            places: HashMap::new(),
        });
    }

    // Threads

    fn receive_any(&mut self) {
        let place = self.random.below(self.clients.len() as u64) as usize;
        self.receive(place);
    }

    /// Let a thread read a client; return whether it had bytes.
    fn receive(&mut self, place: usize) -> bool {
        let client = &mut self.clients[place];
        let Some(native) = client.native.as_mut() else { return false };
        if native.stopped || native.relay.is_judging() {
            return false;
        }
        if client.unread.is_empty() && !native.is_new {
            return false;
        }
        native.is_new = false;
        let whole = client.unread.len() as u64;
        let count = if self.random.chance(4) { self.random.below(whole + 1) } else { whole };
        native.waiting.extend(client.unread.drain(..count as usize));
        self.forward(place);
        true
    }

    /// As `Connection::forward`, to a broker that takes everything.
    fn forward(&mut self, place: usize) {
        let mut native = self.clients[place].native.take().unwrap();
        if !native.stopped {
            let passed = native.relay.client_data(&native.waiting, 1.0, &self.counts);
            let bytes: Vec<u8> = native.waiting.drain(..passed.bytes).collect();
            native.stopped |= passed.stopped;
            self.forwarded(place, &native, &bytes);
            self.submit(place, &mut native);
        }
        self.clients[place].native = Some(native);
    }

    /// As `Connection::submit`.
    fn submit(&mut self, place: usize, native: &mut Native) {
        let (number, number_of_thread) = (native.number, native.thread as u16);
        let Some(judging) = native.relay.judging().filter(|judging| !judging.is_begun()) else {
            return;
        };
        let pool = &self.configurations[native.configuration].pool;
        for batch in &self.clients[place].requests[0].batches {
            let ring = pool.ring(TOPICS[batch.topic].as_bytes(), batch.partition);
            native.places.insert(batch.id, ring.map_or(0, |ring| ring.number()));
        }
        let waits = &self.threads[native.thread].waits;
        if judging.begin(&native.waiting, number, waits, None, usize::MAX, 1.0) {
            let thread = &mut self.threads[native.thread];
            for batch in &self.clients[place].requests[0].batches {
                let ring = pool.ring(TOPICS[batch.topic].as_bytes(), batch.partition);
                thread.rings.retain(|ring| !ring.is_over(number_of_thread));
                if let Some(ring) = ring.filter(|ring| ring.is_waited_for(number_of_thread))
                    && !thread.rings.iter().any(|other| Arc::ptr_eq(other, &ring))
                {
                    thread.rings.push(ring);
                }
            }
        } else {
            native.relay.end_judging(1.0);
            native.stopped = true;
        }
    }

    /// As `Connection::judged`.
    fn judged(&mut self, ring: &Arc<Ring>, of: Judged) {
        let is_it =
            |client: &Client| client.native.as_ref().is_some_and(|n| n.number == of.connection);
        let Some(place) = self.clients.iter().position(is_it) else { return };
        let native = self.clients[place].native.as_mut().unwrap();
        if native.stopped {
            return;
        }
        let Some(judging) = native.relay.judging() else { return };
        judging.note(ring, of, 1.0);
        let size = judging.size;
        if native.relay.finish_judging(&native.waiting[..size], 1.0, &self.counts) {
            native.stopped = true;
        } else if !native.relay.is_judging() {
            self.forward(place);
        }
    }

    /// Let a thread do what it was woken for; return whether it was.
    fn thread(&mut self, number: usize) -> bool {
        let thread = &mut self.threads[number];
        if let Some((ring, judged)) = thread.inbox.pop_front() {
            self.judged(&ring, judged);
            return true;
        }
        let rings = if is_readable(&*thread.waker) {
            thread.waker.reset();
            thread.rings.clone()
        } else {
            let done = |ring: &&Arc<Ring>| is_readable(ring.done_of(number as u16).unwrap());
            thread.rings.iter().find(done).into_iter().cloned().collect()
        };
        for ring in &rings {
            ring.done_of(number as u16).unwrap().reset();
            self.processes.get_mut(&ring.number()).unwrap().worker.note_taken(number);
            for judged in ring.take(number as u16) {
                self.check_outcome(ring, judged, number);
                self.threads[number].inbox.push_back((Arc::clone(ring), judged));
            }
        }
        !rings.is_empty()
    }

    // Python

    /// Let Python have a connection.
    fn take_back(&mut self, place: usize) {
        let Some(mut native) = self.clients[place].native.take() else { return };
        native.relay.end_judging(1.0);
        let early = native.relay.take_early();
        let waiting = native.waiting;
        let expected = HashMap::new();
        self.clients[place].held = Some(Held { waiting, early, expected, has_begun: false });
    }

    /// Let Python do what is due for a client.
    fn python(&mut self, place: usize) {
        let client = &mut self.clients[place];
        if client.native.as_ref().is_some_and(|native| native.stopped) {
            self.take_back(place);
            return;
        }
        let Some(held) = client.held.as_mut() else { return };
        if !held.has_begun {
            let whole =
                client.requests.front().is_some_and(|of| held.waiting.starts_with(&of.frame));
            held.has_begun = true;
            if whole {
                self.begin(place);
            } else {
                assert!(held.early.is_empty(), "seed {}", self.seed);
                let waiting = self.clients[place].held.take().unwrap().waiting;
                self.adopt(place, waiting);
            }
            return;
        }
        if held.expected.is_empty() {
            // The request is answered, or forwarded by Python.
            let mut waiting = client.held.take().unwrap().waiting;
            let request = client.requests.pop_front().unwrap();
            waiting.drain(..request.frame.len());
            self.figures.pythons += 1;
            self.adopt(place, waiting);
        }
    }

    /// Let Python begin with a request: batches with an early outcome are not judged again.
    fn begin(&mut self, place: usize) {
        let held = self.clients[place].held.as_mut().unwrap();
        let mut early = std::mem::take(&mut held.early);
        early.retain(|of| of.number != NOT_BEGUN); // those are judged again
        self.figures.judged_again +=
            (self.clients[place].requests[0].batches.len() - early.len()) as u64;
        for of in early {
            let sent = &self.clients[place].requests[0].batches;
            let batch = sent.iter().find(|batch| {
                TOPICS[batch.topic].as_bytes() == of.topic.labels.topic.as_bytes()
                    && batch.partition == of.partition
            });
            let batch = batch.expect("an outcome of a batch that was not sent");
            let (id, records) = (batch.id, batch.records.clone());
            let process = &self.processes[&of.ring];
            let is_liar = process.worker.is_liar;
            if let Some((plan, judged)) = process.worker.begun.get(&of.number).filter(|_| !is_liar)
            {
                assert!(*judged == records, "seed {}: the verdict of another batch", self.seed);
                assert_eq!(**plan, *of.topic.plan, "seed {}: of another plan", self.seed);
            }
            let plan = &self.configurations.last().unwrap().plans[batch.topic];
            if **plan != *of.topic.plan {
                continue; // it is judged again
            }
            if of.is_accepted {
                let verdict = verdict_of(&of.topic.plan, id);
                assert!(is_liar || verdict == Verdict::Accepted, "seed {}", self.seed);
                self.figures.accepted_early += 1;
                continue;
            }
            let key = (of.ring, of.number);
            let held = self.clients[place].held.as_mut().unwrap();
            held.expected.insert(key, (id, Arc::clone(&of.topic.plan)));
            if let Some(verdict) = self.verdicts.remove(&key) {
                self.resolve(key, verdict);
            } else if self.processes[&of.ring].life == Life::Forgotten {
                self.resolve(key, None);
            }
        }
    }

    /// As `WorkerRings.put_verdict`.
    fn put_verdict(&mut self, key: Key, verdict: Option<Verdict>) {
        if !self.resolve(key, verdict) {
            self.verdicts.insert(key, verdict);
        }
    }

    /// Give a verdict to the request that waits for it; return whether there is such a request.
    fn resolve(&mut self, key: Key, verdict: Option<Verdict>) -> bool {
        let expected = |client: &mut Client| client.held.as_mut()?.expected.remove(&key);
        let Some((id, plan)) = self.clients.iter_mut().find_map(expected) else { return false };
        match verdict {
            None => self.figures.lost += 1,
            Some(verdict) => {
                let is_liar = self.processes[&key.0].worker.is_liar;
                let own = verdict_of(&plan, id);
                assert!(is_liar || verdict == own, "seed {}: another verdict", self.seed);
                if verdict == Verdict::Accepted {
                    self.figures.late += 1;
                } else {
                    self.figures.refused += 1;
                }
            }
        }
        true
    }

    /// Let a message of a worker arrive.
    fn deliver(&mut self, number: u64) -> bool {
        let process = self.processes.get_mut(&number).unwrap();
        let Some((batch, verdict)) = process.worker.socket.pop_front() else { return false };
        if process.life != Life::Forgotten {
            self.put_verdict((number, batch), Some(verdict));
        }
        true
    }

    /// As `WorkerRings.put_late`.
    fn put_late(&mut self) {
        for number in 1..=self.processes.len() as u64 {
            let process = &self.processes[&number];
            if process.life == Life::Forgotten {
                continue;
            }
            let late = process.worker.ring.take_late();
            for batch in late.accepted {
                self.put_verdict((number, batch), Some(Verdict::Accepted));
            }
            for batch in late.left_out {
                self.put_verdict((number, batch), None);
            }
        }
    }

    fn leave(&mut self, place: usize) {
        if self.clients[place].held.is_none() {
            self.take_back(place);
        }
        if self.clients[place].native.is_none() {
            self.clients[place] = Client::default();
        }
    }

    /// Have Python judge what a worker has; it gets no more for now.
    fn recall(&mut self, number: u64) {
        let process = self.processes.get_mut(&number).unwrap();
        if process.life == Life::Serves {
            process.life = Life::Blocked;
            process.is_disturbed = true;
            let plan = process.worker.ring.recall();
            self.check_plan(&plan);
            let configuration = self.processes[&number].configuration;
            if self.random.chance(2) {
                self.follow(configuration); // otherwise it is followed later
            }
        }
    }

    fn resume(&mut self, number: u64) {
        let process = self.processes.get_mut(&number).unwrap();
        if process.life == Life::Blocked {
            process.life = Life::Serves;
            process.worker.ring.resume();
            let configuration = process.configuration;
            self.follow(configuration);
        }
    }

    /// Let a process end; nobody knows yet.
    fn crash(&mut self, number: u64) {
        self.processes.get_mut(&number).unwrap().worker.runs = false;
    }

    fn kill(&mut self, number: u64) {
        self.crash(number);
        self.end(number, Life::Killed);
    }

    /// Let a worker end as soon as it has judged the batch in its hand.
    fn close(&mut self, number: u64) {
        self.end(number, Life::Closing);
    }

    fn end(&mut self, number: u64, life: Life) {
        let process = self.processes.get_mut(&number).unwrap();
        if process.life < Life::Closing {
            process.life = life;
            process.is_disturbed = true;
            let configuration = process.configuration;
            self.follow(configuration);
            let plan = self.processes[&number].worker.ring.close();
            self.check_plan(&plan);
        }
    }

    /// Learn that a process has ended, if it has, and start another.
    fn bury(&mut self, number: u64) -> bool {
        let process = self.processes.get_mut(&number).unwrap();
        if process.life == Life::Closing && process.worker.is_done() {
            process.worker.runs = false;
        }
        if process.worker.runs || process.life == Life::Forgotten {
            return false;
        }
        while self.deliver(number) {}
        self.end(number, Life::Killed);
        self.put_late();
        let process = self.processes.get_mut(&number).unwrap();
        process.life = Life::Forgotten;
        let (configuration, slot) = (process.configuration, process.slot);
        let held = self.clients.iter().filter_map(|client| client.held.as_ref());
        let keys = held.flat_map(|held| held.expected.keys());
        let keys: Vec<_> = keys.filter(|(ring, _)| *ring == number).copied().collect();
        for key in keys {
            self.resolve(key, None);
        }
        self.verdicts.retain(|(ring, _), _| *ring != number);
        if configuration + 1 == self.configurations.len() {
            self.start(configuration, slot);
        } else {
            self.configurations[configuration].slots[slot] = None;
        }
        true
    }

    fn reload(&mut self) {
        self.configure();
    }

    // Conditions that hold

    /// The plan of a batch in a worker's hand is one that was submitted, whatever it writes.
    fn check_plan(&self, plan: &[u8]) {
        let is_known = plan.is_empty() || self.all_plans.iter().any(|each| **each == *plan);
        assert!(is_known, "seed {}: another plan", self.seed);
    }

    fn check(&mut self) {
        for process in self.processes.values().filter(|process| !process.worker.is_liar) {
            let figures = process.worker.ring.figures();
            assert!(!figures.is_broken, "seed {}: nonsense of an honest worker", self.seed);
            self.figures.waited += figures.waiting as u64;
            let late = process.worker.is_late_for();
            assert!(late.is_none(), "seed {}: an outcome waits for a slow batch", self.seed);
        }
    }

    fn check_outcome(&mut self, ring: &Arc<Ring>, judged: Judged, thread: usize) {
        let (seed, number) = (self.seed, ring.number());
        assert!(self.answered.insert((number, judged.ticket)), "seed {seed}: two outcomes");
        assert_eq!(judged.connection as usize % THREADS, thread, "seed {seed}: another thread");
        let process = &self.processes[&number];
        let may_come_back = process.is_disturbed || process.worker.is_liar;
        assert!(judged.outcome != Outcome::LeftOut || may_come_back, "seed {seed}: left out");
    }

    /// Check bytes that were sent to the broker: whole requests, in order, with accepted batches.
    fn forwarded(&mut self, place: usize, native: &Native, mut bytes: &[u8]) {
        let seed = self.seed;
        while !bytes.is_empty() {
            let request = self.clients[place].requests.pop_front().expect("nothing was sent");
            assert!(bytes.starts_with(&request.frame), "seed {seed}: other bytes");
            bytes = &bytes[request.frame.len()..];
            self.figures.forwarded += 1;
            for batch in &request.batches {
                let process = &self.processes[&native.places[&batch.id]];
                if process.worker.is_liar {
                    continue;
                }
                let plan = &self.configurations[native.configuration].plans[batch.topic];
                let mut begun = process.worker.begun.values();
                let is_judged =
                    begun.any(|(of, records)| **of == **plan && *records == batch.records);
                assert!(is_judged, "seed {seed}: forwarded and not judged by the plan in force");
                let verdict = verdict_of(plan, batch.id);
                assert_eq!(verdict, Verdict::Accepted, "seed {seed}: forwarded");
            }
        }
    }

    /// Let everybody do what is due until nothing is: all requests have an end then.
    fn finish(&mut self) {
        for number in 1..=self.processes.len() as u64 {
            let worker = &self.processes[&number].worker;
            self.figures.broken += u64::from(worker.ring.figures().is_broken);
            if worker.is_liar || !worker.reads {
                self.kill(number);
            }
        }
        for _ in 0..300 {
            if self.clients.iter().all(|client| client.requests.is_empty()) {
                self.check_end();
                return;
            }
            self.go_on();
        }
        let stuck = self.stuck();
        panic!("seed {}: requests are stuck: {stuck}", self.seed);
    }

    /// Say who has the requests that have no end.
    fn stuck(&mut self) -> String {
        let mut found = Vec::new();
        for client in self.clients.iter_mut().filter(|client| !client.requests.is_empty()) {
            if let Some(native) = &mut client.native {
                let bytes = native.relay.judging().map(|judging| judging.ring_bytes());
                found.push(format!("thread {} {} {bytes:?}", native.thread, native.stopped));
            }
            for (ring, number) in client.held.iter().flat_map(|held| held.expected.keys()) {
                let process = &self.processes[ring];
                let figures = process.worker.ring.figures();
                found.push(format!("Python, ring {ring} {number} {:?} {figures:?}", process.life));
            }
        }
        found.join("; ")
    }

    fn go_on(&mut self) {
        for number in 1..=self.processes.len() as u64 {
            self.resume(number);
            for _ in 0..10_000 {
                let worker = &mut self.processes.get_mut(&number).unwrap().worker;
                if worker.rests() {
                    break;
                }
                worker.step(&mut self.random);
            }
            while self.deliver(number) {}
            self.bury(number);
        }
        self.settle_threads();
        self.put_late();
        for place in 0..self.clients.len() {
            for _ in 0..3 {
                self.python(place);
            }
            let native = self.clients[place].native.as_ref();
            if native.is_some_and(|native| native.configuration + 1 < self.configurations.len()) {
                self.take_back(place);
            }
            self.receive(place);
            self.settle_threads();
        }
    }

    fn settle_threads(&mut self) {
        for thread in 0..THREADS {
            let rests = (0..100_000).any(|_| !self.thread(thread));
            assert!(rests, "seed {}: a thread never rests", self.seed);
        }
    }

    fn check_end(&mut self) {
        let seed = self.seed;
        for _ in 0..20 {
            self.go_on(); // what nobody waits for
        }
        for process in self.processes.values() {
            let ring = &process.worker.ring;
            let is_over = (0..THREADS as u16).all(|thread| ring.is_over(thread));
            if process.life == Life::Forgotten {
                assert!(is_over, "seed {seed}: a ring that does not end");
                continue;
            }
            if process.life != Life::Serves {
                continue;
            }
            let figures = ring.figures();
            assert_eq!((figures.waiting, figures.current), (0, 0), "seed {seed}");
            assert_eq!(figures.written, figures.answered, "seed {seed}");
            self.check_room(ring, figures.written);
        }
    }

    /// A ring without batches has room for as much as a new ring.
    fn check_room(&self, ring: &Ring, written: u64) {
        let seed = self.seed;
        if !seed.is_multiple_of(if self.mode == Mode::Full { 4 } else { 16 }) {
            return;
        }
        let (plan, records): (Arc<[u8]>, _) = (Arc::default(), vec![0; LONGEST]);
        let batch = Batch {
            connection: 1 << 40,
            thread: 0,
            version: 8,
            partition: 0,
            topic_id: [0; 16],
            plan: &plan,
            context: None,
            records: &records,
            may_wait: true,
        };
        ring.submit(&batch).unwrap();
        assert_eq!(ring.figures().written, written + 1, "seed {seed}: there is no room");
        if self.mode == Mode::Full {
            // The second may have to wait where the first is in the middle.
            let count = (0..40).take_while(|_| ring.submit(&batch).is_some()).count();
            let waiting = ring.figures().waiting;
            assert_eq!(waiting, WAITING_MAX_BATCHES, "seed {seed}: of {count}");
        }
    }
}

impl PartialOrd for Life {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some((*self as u8).cmp(&(*other as u8)))
    }
}
