//! `gowk.Job`: files into a filter, each key exactly once, even if the process is killed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gowk_ingest::{Event, Ingest, State, Tally};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::process::attached;
use crate::{failure, info, options, store};

/// A resumable ingest job: files into a filter, each key exactly once, even if the process is killed.
///
/// The job is a TOML file that names a filter or a store, inputs, and perhaps a file for the keys seen for the first
/// time; ``gowk ingest --help`` shows one with all its keys. Paths in it are relative to its folder.
///
/// Args:
///     path: the job file.
///
/// Raises:
///     JobError: the job file is not valid. If it cannot be read, the exception is an :class:`OSError` too.
///
/// >>> import gowk, pathlib
/// >>> _ = pathlib.Path("urls.txt").write_text("https://example.org/\nhttps://example.com/\n")
/// >>> _ = pathlib.Path("job.toml").write_text('''
/// ... [filter]
/// ... path = "seen.gowk"
/// ... [input]
/// ... paths = ["urls*.txt"]
/// ... ''')
/// >>> job = gowk.Job("job.toml")
/// >>> job.run().run.new
/// 2
/// >>> job.run().run.keys          # nothing new to read
/// 0
#[pyclass(frozen, module = "gowk", name = "Job", weakref)]
pub(crate) struct Job(gowk_ingest::Job);

/// The options of a run.
struct Asked {
    restart: Vec<PathBuf>,
    forget_missing: bool,
    new_output: bool,
    options: gowk::Options,
}

impl Asked {
    fn ingest<'a>(&self, job: &'a gowk_ingest::Job) -> Ingest<'a> {
        let ingest = Ingest::new(job)
            .options(self.options.clone())
            .forget_missing(self.forget_missing)
            .new_output(self.new_output);
        self.restart.iter().fold(ingest, Ingest::restart)
    }
}

/// The inputs to read from their start.
fn restarted(given: Option<Bound<'_, PyAny>>) -> PyResult<Vec<PathBuf>> {
    given.map_or_else(|| Ok(Vec::new()), |paths| options::several("restart", &paths, |path| path.extract()))
}

#[pymethods]
impl Job {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        gowk_ingest::Job::read(path).map(Self).map_err(|error| failure::raised_by_job(py, &error))
    }

    /// The job's name, under which the filter remembers it.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The job file.
    #[getter]
    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The filter, or the store; of a store in a bucket, its address as text.
    #[getter]
    fn filter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        store::place(py, self.0.filter())
    }

    /// The file for keys seen for the first time, or None.
    #[getter]
    fn output(&self) -> Option<PathBuf> {
        self.0.output()
    }

    /// Reads everything new in the inputs into the filter, and returns a summary.
    ///
    /// After an exception or a kill, all commits stay, and the next run goes on from the last commit. Ctrl-C commits the
    /// keys read until then, and raises :class:`KeyboardInterrupt`.
    ///
    /// Args:
    ///     progress: called with a :class:`Progress` now and then, at least five times a second, and with a
    ///         :class:`Committed` after each commit. If it returns False (not None), the run commits and ends; if it
    ///         raises, the run commits, and the exception goes on.
    ///     restart: inputs to read from their start, even if they were read before.
    ///     forget_missing: forget finished inputs that are gone, to make room in the filter's metadata.
    ///     new_output: begin a new output, even if one was written before.
    ///     threads: threads that share the work of a batch.
    ///     wait: seconds to wait for another writer to finish.
    ///
    /// Raises:
    ///     JobError: an input, the output, or the cursor that the filter keeps for the job is not usable. Its attribute
    ///         ``committed`` has the number of keys that this run committed, if any.
    ///     Error: an operation on the filter failed.
    #[pyo3(signature = (*, progress=None, restart=None, forget_missing=false, new_output=false, threads=1,
        wait=0.0))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Py<PyAny>>,
        restart: Option<Bound<'_, PyAny>>,
        forget_missing: bool,
        new_output: bool,
        threads: usize,
        wait: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = options::common(gowk::Options::new(), threads, wait, "first_touch")?;
        let restart = restarted(restart)?;
        let asked = Asked { restart, forget_missing, new_output, options };
        let (mut raised, mut flow) = (None, ControlFlow::Continue(()));
        let outcome = py.detach(|| {
            asked.ingest(&self.0).run(&mut |event| {
                // The answer to a commit takes effect at the next event.
                if flow.is_continue() {
                    match attached(|py| told(py, progress.as_ref(), &event)) {
                        Ok(true) => {}
                        Ok(false) => flow = ControlFlow::Break(()),
                        Err(error) => {
                            raised = Some(error);
                            flow = ControlFlow::Break(());
                        }
                    }
                }
                flow
            })
        });
        let failed = outcome.as_ref().err().map(|error| failure::raised_by_job(py, error));
        match (outcome, failed, raised) {
            (_, Some(failed), raised) => {
                if raised.is_some() {
                    failed.set_context(py, raised);
                }
                Err(failed)
            }
            (_, None, Some(raised)) => Err(raised),
            (Ok(summary), None, None) => self::summary(py, &summary),
            // An error of the job becomes its own exception.
            (Err(error), None, None) => Err(failure::raised_by_job(py, &error)),
        }
    }

    /// What :meth:`run` would do. Nothing changes, except that a filter whose writer died is recovered.
    ///
    /// Takes the same arguments and raises the same errors as :meth:`run`.
    #[pyo3(signature = (*, restart=None, forget_missing=false, new_output=false))]
    fn plan<'py>(
        &self,
        py: Python<'py>,
        restart: Option<Bound<'_, PyAny>>,
        forget_missing: bool,
        new_output: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let restart = restarted(restart)?;
        let asked = Asked { restart, forget_missing, new_output, options: gowk::Options::new() };
        let plan = py.detach(|| asked.ingest(&self.0).plan());
        let plan = plan.map_err(|error| failure::raised_by_job(py, &error))?;
        let inputs: PyResult<Vec<_>> = plan
            .inputs
            .iter()
            .map(|input| {
                let fields = PyDict::new(py);
                fields.set_item("path", &input.path)?;
                fields.set_item("length", input.length)?;
                let state = match input.state {
                    State::New => "new",
                    State::Finished => "finished",
                    State::Grown { .. } => "grown",
                    _ => "half read",
                };
                fields.set_item("state", state)?;
                info::made(py, "PlannedInput", &fields)
            })
            .collect();
        let fields = PyDict::new(py);
        fields.set_item("inputs", PyTuple::new(py, inputs?)?)?;
        fields.set_item("filter_exists", plan.filter_exists)?;
        fields.set_item("output", plan.output.map(|(path, _)| path))?;
        info::made(py, "Plan", &fields)
    }

    /// Removes the cursor of a job from the filter, of this job unless another is named, so that its next run begins
    /// anew. The keys stay in the filter.
    ///
    /// Raises:
    ///     JobError: the filter has no cursor of that job.
    #[pyo3(signature = (name=None))]
    fn forget(&self, py: Python<'_>, name: Option<&str>) -> PyResult<()> {
        let name = name.unwrap_or(self.0.name());
        let outcome = py.detach(|| Ingest::new(&self.0).forget(name));
        outcome.map_err(|error| failure::raised_by_job(py, &error))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("gowk.Job({})", self.0.path().as_os_str().into_pyobject(py)?.repr()?))
    }
}

/// Calls the caller's function with an event. Returns whether to continue.
fn told(py: Python<'_>, progress: Option<&Py<PyAny>>, event: &Event<'_>) -> PyResult<bool> {
    py.check_signals()?;
    let Some(progress) = progress else { return Ok(true) };
    let fields = PyDict::new(py);
    let event = match event {
        Event::Progress(now) => {
            fields.set_item("input", now.input)?;
            fields.set_item("bytes", now.bytes)?;
            fields.set_item("of_bytes", now.of_bytes)?;
            fields.set_item("tally", tally(py, &now.tally)?)?;
            info::made(py, "Progress", &fields)?
        }
        Event::Commit { number, keys } => {
            fields.set_item("number", number)?;
            fields.set_item("keys", keys)?;
            info::made(py, "Committed", &fields)?
        }
        _ => return Ok(true),
    };
    let answer = progress.call1(py, (event,))?;
    Ok(answer.is_none(py) || answer.is_truthy(py)?)
}

fn tally<'py>(py: Python<'py>, tally: &Tally) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("keys", tally.keys)?;
    fields.set_item("new", tally.new)?;
    fields.set_item("empty", tally.empty)?;
    fields.set_item("too_long", tally.too_long)?;
    fields.set_item("no_field", tally.no_field)?;
    fields.set_item("malformed", tally.malformed)?;
    fields.set_item("no_time", tally.no_time)?;
    fields.set_item("late", tally.late)?;
    fields.set_item("early", tally.early)?;
    info::made(py, "Tally", &fields)
}

fn summary<'py>(py: Python<'py>, summary: &gowk_ingest::Summary) -> PyResult<Bound<'py, PyAny>> {
    let inputs: PyResult<Vec<_>> = summary
        .inputs
        .iter()
        .map(|input| {
            let fields = PyDict::new(py);
            fields.set_item("path", &input.path)?;
            fields.set_item("tally", tally(py, &input.tally)?)?;
            fields.set_item("finished", input.finished)?;
            info::made(py, "InputSummary", &fields)
        })
        .collect();
    let fields = PyDict::new(py);
    fields.set_item("inputs", PyTuple::new(py, inputs?)?)?;
    fields.set_item("finished_before", summary.finished_before)?;
    fields.set_item("run", tally(py, &summary.run)?)?;
    fields.set_item("total", tally(py, &summary.total)?)?;
    fields.set_item("finished", summary.finished)?;
    fields.set_item("seconds", summary.duration.as_secs_f64())?;
    fields.set_item("filter", info::info(py, &summary.filter)?)?;
    fields.set_item("requests", summary.requests.map(|counts| info::requests(py, &counts)).transpose()?)?;
    info::made(py, "Summary", &fields)
}
