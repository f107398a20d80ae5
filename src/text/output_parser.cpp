#include "text/output_parser.h"

#include <utility>

namespace baton {

OutputParser::OutputParser(OutputParserOptions options)
    : options_(std::move(options)),
      scanner_(options_.tags),
      writer_(options_.tools, options_.calls != nullptr ? options_.calls->separator : ""),
      reader_(options_.calls != nullptr ? options_.calls->make_reader(writer_) : nullptr),
      in_reasoning_(options_.reasoning && options_.begins_in_reasoning) {}

OutputDelta OutputParser::text(std::string_view piece) {
  scanner_.push(
      piece, [this](std::string_view t) { on_text(t); }, [this](OutputTag t) { on_tag(t); });
  return writer_.take();
}

OutputDelta OutputParser::tag(OutputTag tag) {
  // Text that only might have become a tag did not.
  scanner_.finish([this](std::string_view t) { on_text(t); });
  on_tag(tag);
  return writer_.take();
}

OutputDelta OutputParser::finish() {
  scanner_.finish([this](std::string_view t) { on_text(t); });
  if (reader_) reader_->finish();
  writer_.finish();
  return writer_.take();
}

void OutputParser::on_text(std::string_view piece) {
  if (in_reasoning_) {
    writer_.reasoning(piece);
  } else if (reader_) {
    reader_->text(piece);
  } else {
    writer_.plain_content(piece);
  }
}

void OutputParser::on_tag(OutputTag tag) {
  if (in_reasoning_) {
    if (tag == kThinkClose) in_reasoning_ = false;
    if (tag >= kFirstCallTag) literal(tag);  // a call quoted while thinking is not a call
    return;
  }
  if (tag >= kFirstCallTag) {
    if (!reader_) return literal(tag);
    return reader_->tag(tag - kFirstCallTag);
  }
  if (!options_.reasoning || (reader_ && reader_->in_call())) return literal(tag);
  in_reasoning_ = tag == kThinkOpen;
}

}  // namespace baton
