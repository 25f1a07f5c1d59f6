#include "src/pipeline/compress_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "src/pipeline/journal.h"
#include "src/pipeline/resume.h"
#include "src/pipeline/tensor_run.h"

namespace pith {
namespace {

class Engine {
 public:
  Engine(CompressPlan& plan, CheckpointWriter& writer, const CompressOptions& options,
         Journal& journal)
      : plan_(plan),
        writer_(writer),
        options_(options),
        journal_(journal),
        workers_(*plan.source, options.max_memory) {
    for (const TensorPlan& tensor : plan.tensors) {
      const TensorInfo& info = plan.source->tensors()[tensor.source];
      if (tensor.stored()) total_bytes_ += info.bytes;
    }
  }

  Status run() {
    finished_.resize(plan_.tensors.size());
    for (const JournalEntry& entry : journal_.entries()) {
      PITH_TRY(const bool finished, take_entry(plan_, entry, writer_));
      if (!finished) continue;
      finished_[entry.tensor] = true;
      outcomes_.push_back({entry.tensor, entry.nonzero, {}});
      done_ += plan_.source->tensors()[entry.tensor].bytes;
    }
    PITH_OK(prepare_joint());
    std::vector<TensorPlan*> batch;  // one pass each: threads go from one to the next
    std::int64_t batch_tensors = 0;
    std::int64_t batch_bytes = 0;
    for (TensorPlan& tensor : plan_.tensors) {
      if (!tensor.stored() || finished_[tensor.source]) continue;
      const bool alone =
          TensorRun(plan_, tensor, writer_, options_, meeting_).needs_passes();
      batch_bytes += plan_.source->tensors()[tensor.source].bytes;
      if (alone || ++batch_tensors >= kMostTensors || batch_bytes >= kMostBytes) {
        PITH_OK(run_batch(batch));
        batch.clear();
        batch_tensors = 0;
        batch_bytes = 0;
      }
      batch.push_back(&tensor);
      if (!alone) continue;
      PITH_OK(run_batch(batch));
      batch.clear();
    }
    return run_batch(batch);
  }

  std::vector<TensorOutcome> take_outcomes() { return std::move(outcomes_); }

 private:
  static constexpr std::int64_t kMostTensors = 256;  // whose state is in memory at once
  // What a run that is killed has to do again at most, but for one tensor.
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

  // Stages whose tensors compete look at all of them before the first is compressed.
  Status prepare_joint() {
    std::vector<std::pair<const Stage*, std::vector<const TensorPlan*>>> joint;
    for (const TensorPlan& tensor : plan_.tensors) {
      if (tensor.stages.empty() || !tensor.stages[0]->joint()) continue;
      const Stage* stage = tensor.stages[0].get();
      auto found = std::find_if(joint.begin(), joint.end(),
                                [&](const auto& entry) { return entry.first == stage; });
      if (found == joint.end()) found = joint.insert(joint.end(), {stage, {}});
      found->second.push_back(&tensor);
    }
    for (const auto& [stage, tensors] : joint) {
      std::vector<TensorHeader> headers;
      for (const TensorPlan* tensor : tensors) headers.push_back(tensor->header);
      PITH_TRY(const std::unique_ptr<StageStream> stream, stage->stream(headers));
      while (stream->needs_pass()) {
        for (const TensorPlan* tensor : tensors) {
          const auto tell = [&](std::int64_t /*bytes*/) {
            if (options_.progress) {
              options_.progress({tensor->header.name, done_, total_bytes_});
            }
            return check_cancelled(options_.cancel);
          };
          TensorRun run(plan_, *tensor, writer_, options_, meeting_);
          PITH_OK(
              run.read_all(tell, workers_, [&](std::span<float> values, std::int64_t) {
                return stream->feed(values);
              }));
        }
        PITH_OK(stream->end_pass());
      }
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        PITH_TRY(joint_[tensors[i]], stream->part(i));
      }
    }
    return {};
  }

  Status run_batch(const std::vector<TensorPlan*>& batch) {
    if (batch.empty()) return {};
    std::deque<TensorRun> runs;
    std::vector<TensorRun*> run_of(plan_.tensors.size());
    PieceList list(*plan_.source, options_.max_memory);
    for (TensorPlan* tensor : batch) {
      TensorRun& run = runs.emplace_back(plan_, *tensor, writer_, options_, meeting_);
      run_of[tensor->source] = &run;
      const TensorInfo& info = plan_.source->tensors()[tensor->source];
      // A pass is work too, but what is shown is what is done.
      const auto tell = [&](std::int64_t /*bytes*/) {
        if (options_.progress) options_.progress({info.name, done_, total_bytes_});
        return check_cancelled(options_.cancel);
      };
      const auto joint = joint_.find(tensor);
      PITH_OK(run.prepare(tell, workers_,
                          joint == joint_.end() ? nullptr : std::move(joint->second)));
      PITH_OK(list.add_aligned(tensor->source, run.alignment(), run.strips()));
    }
    PITH_OK(encode(list, run_of));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      TensorRun& run = runs[i];
      PITH_OK(run.finish());
      TensorRecord& record = batch[i]->record;
      for (std::size_t p = 0; p < record.parts.size(); ++p) {
        record.parts[p].checksum = run.checksums()[p];
      }
      if (!batch[i]->copied) record.error = run.figures();
      PITH_OK(journal_.add({.tensor = batch[i]->source,
                            .checksums = run.checksums(),
                            .has_figures = !batch[i]->copied,
                            .figures = run.figures(),
                            .nonzero = run.nonzero()}));
      outcomes_.push_back({batch[i]->source, run.nonzero(), run.sample()});
    }
    return {};
  }

  Status encode(const PieceList& list, const std::vector<TensorRun*>& run_of) {
    std::mutex mutex;
    Status failed;
    std::pair<std::size_t, std::int64_t> failed_at;
    const std::int64_t before = done_;
    const ProgressFunction progress = [&](const Progress& p) {
      done_ = before + p.done;
      if (options_.progress) options_.progress({p.item, done_, total_bytes_});
    };
    const PieceOptions piece_options{nullptr, &progress};
    const Status status = for_each_piece(list, piece_options, [&]() -> PieceFunction {
      return [&, worker = workers_.take()](const Piece& piece) -> Status {
        Status result = check_cancelled(options_.cancel);
        try {
          if (result.ok()) result = run_of[piece.tensor]->encode(*worker, piece);
        } catch (...) {  // no memory: others must not wait for this piece
          meeting_.give_up();
          throw;
        }
        if (result.ok()) return result;
        const bool stopped = result.code() == StatusCode::kCancelled &&
                             !check_cancelled(options_.cancel).ok();
        const std::lock_guard lock(mutex);
        const std::pair at{piece.tensor, piece.number};
        // What others gave up for is the error, not that they did.
        if ((result.code() != StatusCode::kCancelled || stopped) &&
            (failed.ok() || at < failed_at)) {
          failed = result;
          failed_at = at;
        }
        meeting_.give_up();
        return result;
      };
    });
    PITH_OK(failed);
    return status;
  }

  CompressPlan& plan_;
  CheckpointWriter& writer_;
  const CompressOptions& options_;
  Journal& journal_;
  std::vector<bool> finished_;  // by the run before
  std::int64_t total_bytes_ = 0;
  std::int64_t done_ = 0;
  std::map<const TensorPlan*, std::unique_ptr<StageStream>> joint_;  // parts of stages
  Meeting meeting_;
  CompressWorkers workers_;
  std::vector<TensorOutcome> outcomes_;
};

Result<std::vector<TensorOutcome>> run_and_commit(CompressPlan& plan,
                                                  CheckpointWriter& writer,
                                                  const CompressOptions& options,
                                                  Journal& journal) {
  Engine engine(plan, writer, options, journal);
  PITH_OK(engine.run());
  if (plan.manifest_array) {
    PITH_TRY(std::string text, manifest_text(plan, 0, false));
    const Shape& shape = plan.layout.tensors[*plan.manifest_array].shape;
    text.resize(static_cast<std::size_t>(shape.elements()), ' ');
    PITH_OK(writer.write(*plan.manifest_array, 0, std::as_bytes(std::span(text))));
  } else if (plan.manifests) {
    const std::size_t files = std::max<std::size_t>(1, plan.layout.shards.size());
    for (std::size_t i = 0; i < files; ++i) {
      PITH_TRY(const std::string text, manifest_text(plan, i, false));
      PITH_OK(writer.update_metadata("pith", text, i));
    }
  }
  PITH_OK(writer.commit());
  return engine.take_outcomes();
}

}  // namespace

Result<std::vector<TensorOutcome>> run_plan(CompressPlan& plan,
                                            const std::filesystem::path& output,
                                            const CompressOptions& options) {
  WriteOptions write_options;
  write_options.overwrite = options.overwrite;
  write_options.sync = options.sync;
  write_options.cancel = options.cancel;
  write_options.inputs = plan.source->files();
  write_options.inputs.push_back(plan.input);
  Journal journal;
  // npz has checksums of its own, which only a run in one go knows.
  const bool continuable =
      plan.target.format == Format::kSafetensors || plan.target.format == Format::kGguf;
  if (continuable && (options.journal || options.resume)) {
    PITH_TRY(journal, Journal::read(journal_path(output), fingerprint_of(plan, options),
                                    options.resume));
    write_options.part_name = part_name(output);
    write_options.continue_part = !journal.entries().empty();
  }
  if (options.resume) {
    plan.shown.warnings.push_back(
        journal.entries().empty()
            ? std::string("there was no run to continue: all was done anew")
            : fmt::format("{} of {} tensors are those of the run that was continued",
                          journal.entries().size(), plan.tensors.size()));
  }
  PITH_TRY(const std::unique_ptr<CheckpointWriter> writer,
           CheckpointWriter::create(output, plan.layout, write_options));
  if (!write_options.part_name.empty()) PITH_OK(journal.begin());
  Result<std::vector<TensorOutcome>> outcomes =
      run_and_commit(plan, *writer, options, journal);
  // Done, or nothing is left to continue: the temporary goes with the writer.
  journal.remove();
  return outcomes;
}

}  // namespace pith
