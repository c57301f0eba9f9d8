#pragma once
// Written by record_dialects.py with torch 2.13.0, jax 0.10.2, onnx 1.23.2, transformers 5.23.0.
// Weights [3 queries, 4 keys] of one problem, under each project's own words.
#include <limits>

namespace recorded {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float query[] = {
    1.6829419f, 1.8185948f, 0.28224f,   -1.513605f, -1.513605f, -1.9178486f,
    -0.558831f, 1.3139732f, 1.3139732f, 1.9787165f, 0.824237f,  -1.0880423f,
};
constexpr float key[] = {
    -0.8322937f,  1.0806046f, 2.0f,       1.0806046f, -1.3072872f, -1.979985f,
    -0.8322937f,  1.0806046f, 1.9203405f, 0.5673244f, -1.3072872f, -1.979985f,
    -0.29100007f, 1.5078045f, 1.9203405f, 0.5673244f,
};
constexpr float value[] = {
    1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f,
};
constexpr float bias[] = {
    0.0f, -0.25f, -0.5f, -0.75f, 0.5f, 0.25f, 0.0f, -0.25f, 1.0f, 0.75f, 0.5f, 0.25f,
};
constexpr bool allowed[] = {true,  false, true,  false, false, false,
                            false, false, false, true,  true,  true};
constexpr float cap = 1.5f;

constexpr float pytorch_causal[] = {
    1.0f, 0.0f, 0.0f,        0.0f,          0.01653282f, 0.98346716f,
    0.0f, 0.0f, 0.16730136f, 0.0018449869f, 0.8308537f,  0.0f,
};
constexpr float pytorch_mask[] = {
    0.02414881f, 0.0f, 0.9758512f, 0.0f,         0.0f,       0.0f,
    0.0f,        0.0f, 0.0f,       0.001420493f, 0.6396912f, 0.3588883f,
};
constexpr float pytorch_bias[] = {
    0.17078333f, 0.022180405f, 0.65847933f, 0.1485569f,  0.134525f,   0.8080455f,
    0.0213899f,  0.036039572f, 0.31037495f, 0.02538399f, 0.41951925f, 0.24472184f,
};
constexpr float mha_causal[] = {
    1.0f, 0.0f, 0.0f,        0.0f,          0.01653282f, 0.98346716f,
    0.0f, 0.0f, 0.16730134f, 0.0018449869f, 0.8308537f,  0.0f,
};
constexpr float mha_mask[] = {
    0.024148816f, 0.0f, 0.9758512f, 0.0f,         kNan,       kNan,
    kNan,         kNan, 0.0f,       0.001420493f, 0.6396912f, 0.3588883f,
};
constexpr float mha_padding[] = {
    0.024148816f, 0.0f, 0.9758512f,  0.0f, 0.93569565f, 0.0f,
    0.064304374f, 0.0f, 0.16761059f, 0.0f, 0.8323894f,  0.0f,
};
constexpr float jax_causal[] = {
    1.0f, 0.0f, 0.0f,        0.0f,          0.016532812f, 0.98346716f,
    0.0f, 0.0f, 0.16730134f, 0.0018449869f, 0.8308537f,   0.0f,
};
constexpr float jax_window[] = {
    1.0f, 0.0f, 0.0f, 0.0f,          0.016532812f, 0.98346716f,
    0.0f, 0.0f, 0.0f, 0.0022156716f, 0.9977843f,   0.0f,
};
constexpr float jax_mask[] = {
    0.024148816f, 0.0f,  0.9758512f, 0.0f,         0.25f,      0.25f,
    0.25f,        0.25f, 0.0f,       0.001420493f, 0.6396912f, 0.3588883f,
};
constexpr float jax_bias[] = {
    0.036855046f,   0.0007982127f, 0.9033113f,  0.05903541f,   0.021043243f, 0.97488225f,
    0.00087714463f, 0.003197325f,  0.18737608f, 0.0016092901f, 0.5644065f,   0.24660811f,
};
constexpr float jax_lengths[] = {
    0.024132608f,  0.000671119f, 0.97519624f, 0.0f,          0.01651405f, 0.98235106f,
    0.0011349053f, 0.0f,         0.16730134f, 0.0018449869f, 0.8308537f,  0.0f,
};
constexpr float onnx_causal[] = {
    1.0f, 0.0f, 0.0f,        0.0f,          0.016532822f, 0.98346716f,
    0.0f, 0.0f, 0.16730137f, 0.0018449869f, 0.83085364f,  0.0f,
};
constexpr float onnx_past[] = {
    0.9729428f,    0.027057195f, 0.0f,         0.0f,          0.01651406f, 0.98235106f,
    0.0011349057f, 0.0f,         0.114110336f, 0.0012584003f, 0.5666958f,  0.31793544f,
};
constexpr float onnx_mask[] = {
    0.024148816f, 0.0f, 0.9758512f, 0.0f,          0.0f,       0.0f,
    0.0f,         0.0f, 0.0f,       0.0014204931f, 0.6396912f, 0.35888827f,
};
constexpr float onnx_softcap[] = {
    0.22777463f,  0.0f,         0.7722253f, 0.0f,         0.1723401f, 0.7606796f,
    0.031854223f, 0.035126116f, 0.0f,       0.042005777f, 0.5692008f, 0.38879344f,
};
constexpr float onnx_lengths[] = {
    0.02413261f,   0.00067111914f, 0.97519624f, 0.0f,          0.01651406f, 0.98235106f,
    0.0011349057f, 0.0f,           0.16730137f, 0.0018449869f, 0.83085364f, 0.0f,
};
constexpr float onnx_causal_lengths[] = {
    1.0f, 0.0f, 0.0f,        0.0f,          0.016532822f, 0.98346716f,
    0.0f, 0.0f, 0.16730137f, 0.0018449869f, 0.83085364f,  0.0f,
};
constexpr float onnx_window[] = {
    0.9729428f,    0.027057195f, 0.0f, 0.0f, 0.0f,        0.99884605f,
    0.0011539625f, 0.0f,         0.0f, 0.0f, 0.64060116f, 0.3593988f,
};
constexpr float hf_causal[] = {
    0.9729428f,    0.027057182f, 0.0f,         0.0f,       0.016514057f, 0.98235106f,
    0.0011349058f, 0.0f,         0.114110306f, 0.0012584f, 0.5666958f,   0.31793544f,
};
constexpr float hf_window[] = {
    0.9729428f,    0.027057182f, 0.0f, 0.0f, 0.0f,        0.99884605f,
    0.0011539623f, 0.0f,         0.0f, 0.0f, 0.64060116f, 0.3593988f,
};
constexpr float hf_softcap[] = {
    0.7740169f,   0.22598311f, 0.0f,        0.0f,         0.14342663f, 0.81286573f,
    0.043707673f, 0.0f,        0.20809734f, 0.023526995f, 0.40935162f, 0.35902408f,
};
constexpr float hf_mask[] = {
    0.024148816f, 0.0f,  0.9758512f, 0.0f,         0.25f,      0.25f,
    0.25f,        0.25f, 0.0f,       0.001420493f, 0.6396912f, 0.3588883f,
};

}  // namespace recorded
