#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace baton {
namespace {

// theta^(2i / width) in f32, as the reference library computes it.
float base_period(const RopeConfig& config, int64_t i, int64_t width) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
  return static_cast<float>(std::pow(config.theta, static_cast<double>(exponent)));
}

// In f32 throughout, as the reference library: far into a context the last bit of a frequency
// shows in the angle.
float yarn_frequency(const RopeConfig& config, const YarnRange& range, int64_t i, float period) {
  double width = range.high - range.low;
  if (width == 0.0) width = 0.001;  // a step instead of a ramp
  const float along = static_cast<float>(i) - static_cast<float>(range.low);
  const float kept = 1.0F - std::clamp(along / static_cast<float>(width), 0.0F, 1.0F);
  const float interpolated = 1.0F / (static_cast<float>(config.factor) * period);
  return interpolated * (1.0F - kept) + (1.0F / period) * kept;
}

float llama3_frequency(const RopeConfig& config, float frequency) {
  const double original = static_cast<double>(config.original_max_position);
  const double wavelength = 2.0 * std::numbers::pi / static_cast<double>(frequency);
  if (wavelength < original / config.high_freq_factor) return frequency;
  const auto factor = static_cast<float>(config.factor);
  if (wavelength > original / config.low_freq_factor) return frequency / factor;
  const auto smooth = static_cast<float>((original / wavelength - config.low_freq_factor) /
                                         (config.high_freq_factor - config.low_freq_factor));
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

double yarn_attention_factor(const RopeConfig& config) {
  if (config.mscale != 0.0 && config.mscale_all_dim != 0.0) {
    return yarn_mscale(config.factor, config.mscale) /
           yarn_mscale(config.factor, config.mscale_all_dim);
  }
  return yarn_mscale(config.factor, 1.0);
}

double longrope_attention_factor(const RopeConfig& config) {
  if (config.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(config.factor) /
                             std::log(static_cast<double>(config.original_max_position)));
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

YarnRange yarn_range(const RopeConfig& config, int64_t width) {
  const auto dimension = [&](double rotations) {
    return static_cast<double>(width) *
           std::log(static_cast<double>(config.original_max_position) /
                    (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(config.theta));
  };
  double low = dimension(config.beta_fast);
  double high = dimension(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  return {std::max(low, 0.0), std::min(high, static_cast<double>(width - 1))};
}

Result<Rope> make_rope(const RopeConfig& config, int64_t width, int64_t max_position) {
  const int64_t half = width / 2;
  const bool use_long = max_position > config.original_max_position;
  const std::vector<double>& divisors = use_long ? config.long_factor : config.short_factor;
  if (config.type == RopeType::kLongrope && static_cast<int64_t>(divisors.size()) != half) {
    return invalid_argument(
        std::string("config.json: key '") + (use_long ? "long_factor" : "short_factor") +
        "': expected " + std::to_string(half) + " numbers, got " + std::to_string(divisors.size()));
  }
  Rope rope;
  const YarnRange range = yarn_range(config, width);
  for (int64_t i = 0; i < half; ++i) {
    const float period = base_period(config, i, width);
    float frequency = 1.0F / period;
    switch (config.type) {
      case RopeType::kDefault:
      case RopeType::kDynamic:
        break;
      case RopeType::kLinear:
        frequency /= static_cast<float>(config.factor);
        break;
      case RopeType::kYarn:
        frequency = yarn_frequency(config, range, i, period);
        break;
      case RopeType::kLongrope:
        frequency = 1.0F / (static_cast<float>(divisors[static_cast<size_t>(i)]) * period);
        break;
      case RopeType::kLlama3:
        frequency = llama3_frequency(config, frequency);
        break;
    }
    rope.inv_freq.push_back(frequency);
  }
  if (config.type == RopeType::kYarn) {
    rope.attention_factor =
        static_cast<float>(config.attention_factor.value_or(yarn_attention_factor(config)));
  }
  if (config.type == RopeType::kLongrope) {
    rope.attention_factor =
        static_cast<float>(config.attention_factor.value_or(longrope_attention_factor(config)));
  }
  if (config.type != RopeType::kDefault && config.mscale_all_dim != 0.0) {
    const double mscale = yarn_mscale(config.factor, config.mscale_all_dim);
    rope.score_factor = static_cast<float>(mscale * mscale);
  }
  const bool finite = std::all_of(
      rope.inv_freq.begin(), rope.inv_freq.end(), [](float f) { return std::isfinite(f); });
  if (!finite || !std::isfinite(rope.attention_factor) || !std::isfinite(rope.score_factor)) {
    return invalid_argument(
        "config.json: the declared rope scaling gives frequencies or factors that are no finite "
        "numbers");
  }
  return rope;
}

}  // namespace baton
