//! Every order in which writers and readers can open, commit, publish, recover, look up and die, in a small model.
//!
//! A process runs the programs below, one step at a time and in any order with the others; it can die between any
//! two steps, and its locks are then freed in any order. Which journals are replayed is decided by the real table
//! (`recover::decide`). Power cuts are left to `tests/crash/power.rs`, which has the real operations.
//!
//! Invariants checked, in every state that can be reached:
//!
//! 1. A lookup finds every commit that was acknowledged before it began.
//! 2. A commit that was acknowledged, or seen by a reader, is never lost: the file and the journal under FILE's names
//!    always give it.
//! 3. There are never two writers, and nobody changes a file that another is changing.
//! 4. From every state, all live processes can reach their ends.
//!
//! That the model is of this code: the real code, run alone, makes the calls to the disk that the programs name, in the
//! same order and under the same locks. That the model can fail: each of a list of changes to the programs violates an
//! invariant.

use std::fmt::Write as _;
use std::fs::OpenOptions;

use super::*;
use crate::explorer::{self, Model, Outcome, assert_each_breaks, explore};
use crate::file::recover::{Decision, Holds, Kin, decide};
use crate::options::Options;
use crate::system::SystemDisk;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Open,
    GateShared,
    GateExclusive,
    /// Gives up the gate and starts over if another process has the lock exclusively.
    LockShared,
    /// Continues without the lock if another process has it exclusively.
    LockSharedIfFree,
    /// Starts over if the name leads to another file.
    Compare,
    SyncFolder,
    /// For readers: if recovery is due, gives up both locks and recovers first.
    LeaveIfRecoveryIsDue,
    /// Skips the recovery if none is due.
    SkipUnlessRecoveryIsDue,
    RewriteJournal,
    MakeOdd,
    /// The regions are then between two commits.
    RedoPart,
    RedoAll,
    ClearSuperseded,
    MakeEven,
    Superblocks,
    ResetJournal,
    /// A conversion gives up the shared lock before it tries the exclusive one.
    DropLock,
    LockExclusive,
    SetBusy,
    SetIdle,
    DropGate,
    /// An open writer verifies all pages, and gives up if one is damaged.
    VerifyAll,
    /// What an open writer does next.
    Choose,
    Append,
    ApplyPart,
    ApplyAll,
    Acknowledge,
    MakeFile,
    Supersede,
    Rename,
    Begin,
    Look,
    End,
}
use Step::*;

/// The calls to the disk that the real code makes in a step, without repetitions.
const fn calls(step: Step) -> &'static [&'static str] {
    match step {
        SyncFolder => &["sync folder"],
        RewriteJournal => &["sync folder", "write journal", "sync journal"],
        // After the pages, a recovery also writes the newest slot again.
        RedoAll => &["write data"],
        Superblocks => &["sync data", "write data", "sync data", "write data", "sync data"],
        ResetJournal => &["write journal", "cut journal", "sync journal"],
        SetBusy | SetIdle => &["write data", "sync data"],
        Append => &["write journal", "sync journal"],
        ApplyAll => &["write data"],
        MakeFile => &["create new", "write new", "sync new", "allocate new", "write new", "sync new"],
        Rename => &["rename new", "sync folder"],
        _ => &[],
    }
}

/// The steps of each kind of process.
type Programs = explorer::Programs<Step>;

const WRITE: usize = 0;
const COMMIT: usize = 1;
const PUBLISH: usize = 2;
const CLOSE: usize = 3;
const READ: usize = 4;
const RECOVER: usize = 5;
const LOOKUP: usize = 6;
const START_OVER: usize = 7;
const GIVE_UP: usize = 8;

fn programs() -> Programs {
    let recovery = [
        SkipUnlessRecoveryIsDue,
        RewriteJournal,
        MakeOdd,
        RedoPart,
        RedoAll,
        ClearSuperseded,
        MakeEven,
        Superblocks,
        ResetJournal,
    ];
    let with_recovery = |before: &[Step], after: &[Step]| [before, &recovery, after].concat();
    explorer::Programs(vec![
        with_recovery(
            &[Open, GateExclusive, LockShared, Compare, SyncFolder],
            &[DropLock, LockExclusive, SetBusy, DropGate, VerifyAll, Choose],
        ),
        vec![Append, MakeOdd, ApplyPart, ApplyAll, MakeEven, Acknowledge, Choose],
        vec![MakeFile, Supersede, Rename, ResetJournal, Acknowledge, Choose],
        vec![Superblocks, ResetJournal, SetIdle, DropLock, End],
        vec![
            Open,
            GateShared,
            LockSharedIfFree,
            Compare,
            SyncFolder,
            LeaveIfRecoveryIsDue,
            DropLock,
            DropGate,
            Begin,
        ],
        with_recovery(&[Open, GateExclusive, LockShared, Compare], &[SetIdle, DropLock, DropGate, Open]),
        vec![Begin, Look],
        vec![DropLock, DropGate, Open],
        vec![SetIdle, DropLock, End],
    ])
}

/// A data file. Its index is its generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct DataFile {
    busy: bool,
    superseded: bool,
    /// Whether the epoch is odd.
    odd: bool,
    /// Whether the regions are somewhere between two commits.
    torn: bool,
    /// The commit that the regions hold.
    data: u8,
    superblock: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct JournalFile {
    generation: u8,
    base: u8,
    last: u8,
}

/// Who holds a lock, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Lock {
    shared: u8,
    exclusive: u8,
}

impl Lock {
    const fn free_for(self, me: u8, exclusive: bool) -> bool {
        self.exclusive & !me == 0 && (!exclusive || self.shared & !me == 0)
    }

    fn take(&mut self, me: u8, exclusive: bool) {
        self.free(me);
        if exclusive { self.exclusive |= me } else { self.shared |= me }
    }

    fn free(&mut self, me: u8) {
        self.shared &= !me;
        self.exclusive &= !me;
    }

    const fn is_held(self, me: u8) -> bool {
        (self.shared | self.exclusive) & me != 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Process {
    writer: bool,
    program: u8,
    at: u8,
    inode: u8,
    /// Of a reader that is opening the file: whether another process has the writer lock exclusively.
    beside: bool,
    /// The newest commit acknowledged before the lookup began.
    floor: u8,
    /// Commits or lookups still to be made.
    left: u8,
    /// The number of the commit that is being made.
    commit: u8,
    /// Dead; its locks may not be released yet.
    dead: bool,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    name: u8,
    inodes: [DataFile; 2],
    gates: [Lock; 2],
    lock: Lock,
    journal: JournalFile,
    /// The newest commit that a writer acknowledged or a reader reported.
    told: u8,
    deaths: u8,
    processes: [Option<Process>; 3],
}

impl World {
    /// A closed filter, and processes about to open it: `Some(true)` writes.
    fn new(processes: [Option<bool>; 3], rounds: u8, deaths: u8) -> Self {
        let process = |writer: bool| Process {
            writer,
            program: if writer { WRITE } else { READ } as u8,
            at: 0,
            inode: 0,
            beside: false,
            floor: 0,
            left: rounds,
            commit: 0,
            dead: false,
            ended: false,
        };
        Self {
            name: 0,
            inodes: [DataFile::default(); 2],
            gates: [Lock::default(); 2],
            lock: Lock::default(),
            journal: JournalFile { generation: 0, base: 0, last: 0 },
            told: 0,
            deaths,
            processes: processes.map(|writer| writer.map(process)),
        }
    }

    fn inode(&mut self, number: u8) -> &mut DataFile {
        &mut self.inodes[usize::from(number)]
    }

    /// What the real table decides about the journal for this file.
    fn decision(&self, number: u8) -> Decision {
        let JournalFile { generation, base, last } = self.journal;
        let superblock = self.inodes[usize::from(number)].superblock;
        let kin = match generation.cmp(&number) {
            std::cmp::Ordering::Less => Kin::Older,
            std::cmp::Ordering::Greater => Kin::Newer,
            std::cmp::Ordering::Equal if base == superblock => Kin::Continues,
            std::cmp::Ordering::Equal => Kin::OtherCheckpoint,
        };
        let holds = match last {
            _ if last == base => Holds::Nothing,
            _ if last <= superblock => Holds::Known,
            _ => Holds::Beyond,
        };
        decide(kin, holds, Holds::Nothing)
    }

    fn recovery_is_due(&self, number: u8) -> bool {
        let DataFile { busy, odd, .. } = self.inodes[usize::from(number)];
        busy || odd || self.journal.last > self.journal.base
    }

    /// The commit that FILE and the journal hold, if the next step is a recovery.
    fn kept(&self) -> Outcome<u8> {
        let DataFile { torn, data, superblock, .. } = self.inodes[usize::from(self.name)];
        match self.decision(self.name) {
            Decision::Replay => Ok(self.journal.last),
            Decision::Retire if torn => Err("torn for good".to_owned()),
            Decision::Retire if data != superblock => Err(format!("{data} under the name of {superblock}")),
            Decision::Retire => Ok(superblock),
            Decision::Refuse(why) => Err(format!("refused: {why:?}")),
        }
    }

    /// A dead process loses either lock first.
    fn freed(&self, me: u8) -> Vec<Self> {
        let mut worlds = Vec::new();
        if self.lock.is_held(me) {
            let mut next = *self;
            next.lock.free(me);
            worlds.push(next);
        }
        for gate in 0..2 {
            if self.gates[gate].is_held(me) {
                let mut next = *self;
                next.gates[gate].free(me);
                worlds.push(next);
            }
        }
        worlds
    }

    /// A writer commits, publishes, or closes.
    fn choices(&self, index: usize, inode: u8) -> Vec<Self> {
        let left = self.processes[index].unwrap().left;
        let ways = [(COMMIT, left > 0), (PUBLISH, left > 0 && inode == 0), (CLOSE, true)];
        let chosen = ways.into_iter().filter(|(_, possible)| *possible).map(|(program, _)| {
            let mut next = *self;
            let commit = self.inodes[usize::from(inode)].data + 1;
            let process = next.processes[index].as_mut().unwrap();
            *process = Process { program: program as u8, at: 0, commit, ..*process };
            process.left -= u8::from(program != CLOSE);
            next
        });
        chosen.collect()
    }

    /// A lookup answers, or waits for the writer, or opens the file again.
    fn looks(&self, index: usize, process: Process) -> Outcome<Vec<Self>> {
        let mut next = *self;
        let DataFile { odd, torn, data, .. } = self.inodes[usize::from(process.inode)];
        let me = next.processes[index].as_mut().unwrap();
        if odd {
            (me.program, me.at) = (READ as u8, 0);
            return Ok(vec![next]);
        }
        if torn {
            return Err("an answer from between two commits".to_owned());
        }
        if data < process.floor {
            return Err(format!("absent, though acknowledged: {} of {}", data, process.floor));
        }
        me.left -= 1;
        (me.ended, me.at) = (me.left == 0, 0);
        next.told = next.told.max(data);
        Ok(vec![next])
    }
}

impl Model for World {
    type Step = Step;

    const PROCESSES: usize = 3;

    fn check(&self, programs: &Programs) -> Outcome<()> {
        let kept = self.kept()?;
        if kept < self.told {
            return Err(format!("commit {} is lost, {kept} is kept", self.told));
        }
        let changing = |step| {
            matches!(
                step,
                Choose
                    | Append
                    | ApplyPart
                    | ApplyAll
                    | RedoPart
                    | RedoAll
                    | Superblocks
                    | ResetJournal
                    | Rename
            )
        };
        let owners = self.processes.iter().flatten().filter(|process| {
            let step = programs.0[usize::from(process.program)].get(usize::from(process.at));
            !process.dead && !process.ended && step.is_some_and(|step| changing(*step))
        });
        if owners.count() > 1 {
            return Err("two change the file".to_owned());
        }
        Ok(())
    }

    fn after(&self, index: usize, programs: &Programs) -> Outcome<Vec<Self>> {
        let Some(process) = self.processes[index] else { return Ok(Vec::new()) };
        let me = 1 << index;
        let mut next = *self;
        if process.dead {
            return Ok(self.freed(me));
        }
        if process.ended {
            return Ok(Vec::new());
        }
        let step = programs.0[usize::from(process.program)][usize::from(process.at)];
        let inode = process.inode;
        let to = |world: &mut Self, program: usize| {
            let process = world.processes[index].as_mut().unwrap();
            (process.program, process.at) = (program as u8, 0);
        };
        next.processes[index].as_mut().unwrap().at += 1;
        match step {
            Open => {
                let start = if process.writer { WRITE } else { READ };
                // At the end of a program, the process starts over.
                if process.at > 0 {
                    to(&mut next, start);
                } else {
                    next.processes[index].as_mut().unwrap().inode = self.name;
                }
            }
            GateShared | GateExclusive => {
                let (gate, exclusive) = (&mut next.gates[usize::from(inode)], step == GateExclusive);
                if !gate.free_for(me, exclusive) {
                    return Ok(Vec::new());
                }
                gate.take(me, exclusive);
            }
            LockShared if !self.lock.free_for(me, false) => to(&mut next, START_OVER),
            LockShared => next.lock.take(me, false),
            LockSharedIfFree => {
                let free = self.lock.free_for(me, false);
                next.processes[index].as_mut().unwrap().beside = !free;
                if free {
                    next.lock.take(me, false);
                }
            }
            Compare if self.name != inode => to(&mut next, START_OVER),
            LeaveIfRecoveryIsDue if !process.beside && self.recovery_is_due(inode) => {
                next.lock.free(me);
                next.gates[usize::from(inode)].free(me);
                to(&mut next, RECOVER);
            }
            SkipUnlessRecoveryIsDue if !self.recovery_is_due(inode) => {
                let program = &programs.0[usize::from(process.program)];
                let last = program.iter().rposition(|step| matches!(step, Superblocks | ResetJournal));
                next.processes[index].as_mut().unwrap().at = last.map_or(process.at, |last| last as u8) + 1;
            }
            MakeOdd => next.inode(inode).odd = true,
            RedoPart => next.inode(inode).torn |= self.decision(inode) == Decision::Replay,
            RedoAll if self.decision(inode) == Decision::Replay => {
                let data = self.journal.last;
                *next.inode(inode) = DataFile { torn: false, data, ..*next.inode(inode) };
            }
            ClearSuperseded => next.inode(inode).superseded = false,
            MakeEven => next.inode(inode).odd = false,
            Superblocks => next.inode(inode).superblock = next.inode(inode).data,
            ResetJournal => {
                let base = next.inode(inode).superblock;
                next.journal = JournalFile { generation: inode, base, last: base };
            }
            DropLock => next.lock.free(me),
            LockExclusive if !self.lock.free_for(me, true) => to(&mut next, START_OVER),
            LockExclusive => next.lock.take(me, true),
            SetBusy => next.inode(inode).busy = true,
            SetIdle => next.inode(inode).busy = false,
            DropGate => next.gates[usize::from(inode)].free(me),
            VerifyAll => {
                let mut damaged = next;
                to(&mut damaged, GIVE_UP);
                return Ok(vec![next, damaged]);
            }
            Choose => return Ok(self.choices(index, inode)),
            Append => next.journal.last = process.commit,
            ApplyPart => next.inode(inode).torn = true,
            ApplyAll => {
                *next.inode(inode) = DataFile { torn: false, data: process.commit, ..*next.inode(inode) };
            }
            Acknowledge => next.told = next.told.max(process.commit),
            MakeFile => {
                let (data, superblock) = (process.commit, process.commit);
                next.inodes[1] = DataFile { busy: true, data, superblock, ..DataFile::default() };
            }
            Supersede => next.inode(inode).superseded = true,
            Rename => {
                next.name = 1;
                next.processes[index].as_mut().unwrap().inode = 1;
            }
            Begin => {
                let superseded = self.inodes[usize::from(inode)].superseded;
                next.processes[index].as_mut().unwrap().floor = self.told;
                to(&mut next, if superseded && self.name != inode { READ } else { LOOKUP });
                next.processes[index].as_mut().unwrap().at = u8::from(!(superseded && self.name != inode));
            }
            Look => return self.looks(index, process),
            End => next.processes[index].as_mut().unwrap().ended = true,
            RedoAll
            | Compare
            | LeaveIfRecoveryIsDue
            | SkipUnlessRecoveryIsDue
            | SyncFolder
            | RewriteJournal => {}
        }
        Ok(vec![next])
    }

    fn after_death(&self, index: usize) -> Option<Self> {
        let process = self.processes[index].filter(|process| !process.dead && !process.ended)?;
        let mut next = *self;
        next.deaths = self.deaths.checked_sub(1)?;
        // Nothing else in a dead process matters.
        next.processes[index] = Some(Process {
            dead: true,
            program: 0,
            at: 0,
            inode: 0,
            beside: false,
            floor: 0,
            left: 0,
            commit: 0,
            ..process
        });
        Some(next)
    }

    fn is_over(&self) -> bool {
        self.processes.iter().flatten().all(|process| process.ended || process.dead)
    }
}

const W: Option<bool> = Some(true);
const R: Option<bool> = Some(false);

/// Each cast: who takes part, how many commits or lookups each makes, and how many die.
const CASTS: [([Option<bool>; 3], u8, u8); 4] =
    [([W, R, None], 2, 2), ([W, W, None], 2, 2), ([W, W, R], 1, 2), ([W, R, R], 1, 2)];

#[test]
fn no_order_of_steps_and_deaths_breaks_an_invariant() {
    let programs = programs();
    let mut told = String::new();
    for (cast, rounds, deaths) in CASTS {
        let states = explore(World::new(cast, rounds, deaths), &programs).unwrap();
        writeln!(told, "{cast:?}, {rounds} rounds, {deaths} deaths: {states} states").unwrap();
        assert!(states > 1000);
    }
    print!("{told}");
}

const NAMES: [&str; 9] =
    ["write", "commit", "publish", "close", "read", "recover", "lookup", "start over", "give up"];

/// The steps left out, and the neighbours swapped, that break an invariant without a power cut. The other changes lose
/// only time, or protection from power cuts (the syncs, the rewritten journal, the state), or protection that another
/// step also gives.
const BREAKING: [&str; 38] = [
    "write: without GateExclusive",
    "write: without LockShared",
    "write: without Compare",
    "write: without MakeOdd",
    "write: without RedoAll",
    "write: without Superblocks",
    "write: without ResetJournal",
    "write: without LockExclusive",
    "write: without DropGate",
    "write: Compare before LockShared",
    "write: RedoPart before MakeOdd",
    "write: ResetJournal before Superblocks",
    "write: LockExclusive before DropLock",
    "commit: without Append",
    "commit: without MakeOdd",
    "commit: without ApplyAll",
    "commit: ApplyPart before MakeOdd",
    "commit: MakeEven before ApplyAll",
    "publish: without MakeFile",
    "publish: without Supersede",
    "publish: without Rename",
    "publish: without ResetJournal",
    "publish: Rename before Supersede",
    "publish: ResetJournal before Rename",
    "close: without Superblocks",
    "close: without DropLock",
    "close: ResetJournal before Superblocks",
    "read: without LeaveIfRecoveryIsDue",
    "read: without DropLock",
    "read: without DropGate",
    "recover: without GateExclusive",
    "recover: without LockShared",
    "recover: without MakeOdd",
    "recover: without MakeEven",
    "recover: RedoPart before MakeOdd",
    "recover: ResetJournal before Superblocks",
    "recover: without SetIdle",
    "give up: without DropLock",
];

#[test]
fn removing_or_swapping_steps_breaks_an_invariant() {
    let starts = CASTS.map(|(cast, rounds, deaths)| World::new(cast, rounds, deaths));
    assert_each_breaks(&starts, &programs(), &NAMES, &BREAKING);
}

/// The calls to the disk of this world's first process, run alone, each with the state of gate and writer lock at that
/// moment. An open writer does what `choices` say.
fn calls_of(mut world: World, choices: &[usize]) -> Vec<String> {
    let (programs, mut choices, mut told) = (programs(), choices.iter().peekable(), Vec::new());
    let state = |lock: Lock| match lock {
        Lock { exclusive: 1.., .. } => "exclusive",
        Lock { shared: 1.., .. } => "shared",
        _ => "free",
    };
    while let Some(process) = world.processes[0].filter(|process| !process.ended) {
        let step = programs.0[usize::from(process.program)][usize::from(process.at)];
        let (gate, lock) = (state(world.gates[usize::from(world.name)]), state(world.lock));
        told.extend(calls(step).iter().map(|call| format!("{call}: gate {gate}, lock {lock}")));
        let next = world.after(0, &programs).unwrap();
        let chosen = match step {
            Choose => Some(choices.next().copied().unwrap_or(CLOSE)),
            VerifyAll => Some(choices.next_if_eq(&&GIVE_UP).copied().unwrap_or(WRITE)),
            _ => None,
        };
        let is_chosen = |next: &&World| chosen.is_none_or(|p| next.processes[0].unwrap().program == p as u8);
        world = *next.iter().find(is_chosen).unwrap();
    }
    told.dedup();
    told
}

/// Records the calls to the disk, as `calls_of` does.
#[derive(Debug)]
struct Probe {
    files: Files,
    told: std::sync::Mutex<Vec<String>>,
}

impl Probe {
    fn new(files: &Files) -> Arc<Self> {
        Arc::new(Self { files: files.clone(), told: std::sync::Mutex::default() })
    }

    fn state(path: &Path) -> &'static str {
        let file = File::open(path).unwrap();
        if fs2::FileExt::try_lock_exclusive(&file).is_ok() {
            return "free";
        }
        if fs2::FileExt::try_lock_shared(&file).is_ok() { "shared" } else { "exclusive" }
    }

    fn tell(&self, call: &str, what: &str) {
        let (gate, lock) = (Self::state(&self.files.data), Self::state(&self.files.lock));
        self.told.lock().unwrap().push(format!("{call} {what}: gate {gate}, lock {lock}"));
    }

    fn tell_of(&self, call: &str, file: &File) {
        let inode = Inode::of(&file.metadata().unwrap());
        let is = |path: &Path| path.metadata().is_ok_and(|metadata| Inode::of(&metadata) == inode);
        let what = match () {
            () if is(&self.files.data) => "data",
            () if is(&self.files.journal) => "journal",
            () => "new",
        };
        self.tell(call, what);
    }

    fn told(&self) -> Vec<String> {
        let mut told = self.told.lock().unwrap().clone();
        told.dedup();
        told
    }
}

impl Disk for Probe {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.tell("create", "new");
        SystemDisk.create(path, mode)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.tell_of("write", file);
        SystemDisk.write_at(file, bytes, offset)
    }

    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        self.tell_of("cut", file);
        SystemDisk.set_len(file, length)
    }

    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        self.tell_of("allocate", file);
        SystemDisk.allocate(file, length)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.tell_of("sync", file);
        SystemDisk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        self.tell("rename", "new");
        SystemDisk.rename(from, to, replace)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.tell("remove", "new");
        SystemDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.tell("sync", "folder");
        SystemDisk.sync_dir(dir)
    }
}

/// A closed filter, and a filter whose writer died with a commit that is certain only in its journal.
fn filters(dir: &Path) -> [Files; 2] {
    let (closed, left) = (dir.join("closed"), dir.join("left"));
    let mut writer = Options::new().capacity(1000).create(&closed).unwrap();
    for key in [b"a", b"b"] {
        writer.insert(key).unwrap();
        writer.commit().unwrap();
    }
    for suffix in ["", "-journal", "-lock"] {
        let [from, to] = ["closed", "left"].map(|name| dir.join(format!("{name}{suffix}")));
        std::fs::copy(from, to).unwrap();
    }
    writer.close().unwrap();
    [closed, left].map(|path| Files::new(&path).unwrap())
}

#[test]
fn the_real_code_takes_the_steps_of_the_programs() {
    let dir = tempfile::tempdir().unwrap();
    let [closed, left] = filters(dir.path());
    let with = |probe: &Arc<Probe>| Options::new().disk(probe.clone());
    let world = |writer, journaled: u8| {
        let mut world = World::new([Some(writer), None, None], 2, 0);
        world.journal.last = journaled;
        *world.inode(0) = DataFile { busy: journaled > 0, data: journaled, ..DataFile::default() };
        world
    };

    let probe = Probe::new(&left);
    with(&probe).read(&left.data).unwrap();
    let mut reads = world(false, 1);
    reads.processes[0].as_mut().unwrap().left = 1;
    assert_eq!(probe.told(), calls_of(reads, &[]));

    let dir = tempfile::tempdir().unwrap();
    let [_, left] = filters(dir.path());
    for (files, journaled) in [(&closed, 0), (&left, 1)] {
        let probe = Probe::new(files);
        let mut writer = with(&probe).open_existing(&files.data).unwrap();
        writer.grow().unwrap();
        writer.commit().unwrap();
        writer.insert(b"c").unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        assert_eq!(probe.told(), calls_of(world(true, journaled), &[PUBLISH, COMMIT, CLOSE]));
    }

    let dir = tempfile::tempdir().unwrap();
    for (files, journaled) in filters(dir.path()).iter().zip([0, 1]) {
        let end = files.data.metadata().unwrap().len();
        let file = OpenOptions::new().write(true).open(&files.data).unwrap();
        SystemDisk.write_at(&file, b"damage", end - 6).unwrap();
        let probe = Probe::new(files);
        let outcome = with(&probe).verify(Verify::Eager).open_existing(&files.data);
        assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
        assert_eq!(probe.told(), calls_of(world(true, journaled), &[GIVE_UP]));
    }
}
