#include "src/pipeline/compress_engine.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "src/pipeline/tensor_run.h"

namespace pith {
namespace {

class Engine {
 public:
  Engine(CompressPlan& plan, CheckpointWriter& writer, const CompressOptions& options)
      : plan_(plan), writer_(writer), options_(options) {
    for (const TensorPlan& tensor : plan.tensors) {
      const TensorInfo& info = plan.source->tensors()[tensor.source];
      if (tensor.stored()) total_bytes_ += info.bytes;
    }
  }

  Status run() {
    std::vector<TensorPlan*> batch;  // one pass each: threads go from one to the next
    std::int64_t batch_tensors = 0;
    for (TensorPlan& tensor : plan_.tensors) {
      if (!tensor.stored()) continue;
      const bool alone = TensorRun(plan_, tensor, writer_, options_).needs_passes();
      if (alone || ++batch_tensors >= kMostTensors) {
        PITH_OK(run_batch(batch));
        batch.clear();
        batch_tensors = 0;
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

  Status run_batch(const std::vector<TensorPlan*>& batch) {
    if (batch.empty()) return {};
    std::deque<TensorRun> runs;
    std::vector<TensorRun*> run_of(plan_.tensors.size());
    PieceList list(*plan_.source, options_.max_memory);
    for (TensorPlan* tensor : batch) {
      TensorRun& run = runs.emplace_back(plan_, *tensor, writer_, options_);
      run_of[tensor->source] = &run;
      PITH_OK(list.add_aligned(tensor->source, run.alignment()));
      const TensorInfo& info = plan_.source->tensors()[tensor->source];
      PITH_OK(run.prepare([&](std::int64_t bytes) {
        // A pass is work too, but what is shown is what is done.
        show(info.name, 0 * bytes);
        return check_cancelled(options_.cancel);
      }));
    }
    PITH_OK(encode(list, runs, run_of));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      TensorRun& run = runs[i];
      PITH_OK(run.finish());
      TensorRecord& record = batch[i]->record;
      for (std::size_t p = 0; p < record.parts.size(); ++p) {
        record.parts[p].checksum = run.checksums()[p];
      }
      if (!batch[i]->copied) record.error = run.figures();
      outcomes_.push_back({batch[i]->source, run.nonzero(), run.sample()});
    }
    return {};
  }

  Status encode(const PieceList& list, std::deque<TensorRun>& runs,
                const std::vector<TensorRun*>& run_of) {
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
      std::shared_ptr<CompressWorker> worker = take_worker();
      return [&, worker](const Piece& piece) -> Status {
        Status result = check_cancelled(options_.cancel);
        if (result.ok()) result = run_of[piece.tensor]->encode(*worker, piece);
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
        for (TensorRun& run : runs) run.give_up();
        return result;
      };
    });
    PITH_OK(failed);
    return status;
  }

  // Buffers are touched once and used by all batches.
  std::shared_ptr<CompressWorker> take_worker() {
    const std::lock_guard lock(workers_mutex_);
    for (std::shared_ptr<CompressWorker>& worker : workers_) {
      if (worker.use_count() == 1) return worker;
    }
    workers_.push_back(std::make_shared<CompressWorker>(*plan_.source));
    return workers_.back();
  }

  void show(const std::string& item, std::int64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress({item, done_, total_bytes_});
  }

  CompressPlan& plan_;
  CheckpointWriter& writer_;
  const CompressOptions& options_;
  std::int64_t total_bytes_ = 0;
  std::int64_t done_ = 0;
  std::mutex workers_mutex_;
  std::vector<std::shared_ptr<CompressWorker>> workers_;
  std::vector<TensorOutcome> outcomes_;
};

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
  PITH_TRY(const std::unique_ptr<CheckpointWriter> writer,
           CheckpointWriter::create(output, plan.layout, write_options));
  Engine engine(plan, *writer, options);
  PITH_OK(engine.run());
  if (plan.manifests) {
    const std::size_t files = std::max<std::size_t>(1, plan.layout.shards.size());
    for (std::size_t i = 0; i < files; ++i) {
      PITH_TRY(const std::string text, manifest_text(plan, i, false));
      PITH_OK(writer->update_metadata("pith", text, i));
    }
  }
  PITH_OK(writer->commit());
  return engine.take_outcomes();
}

}  // namespace pith
