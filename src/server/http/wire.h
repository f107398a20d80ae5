// The HTTP/1.1 text we write, and the request as handlers see it.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <string>
#include <string_view>

#include "server/http/exchange.h"

namespace baton {

// Without arrival.
HttpRequest request_of(const boost::beast::http::header<true, boost::beast::http::fields>& message);

// Head of a whole response, with Content-Length of its body.
std::string response_head(const HttpResponse& response,
                          std::string_view request_id,
                          bool keep_alive,
                          bool http_1_0);

// Head of a server-sent event stream, chunked unless HTTP/1.0.
std::string stream_head(const HttpHeaders& headers,
                        std::string_view request_id,
                        bool keep_alive,
                        bool http_1_0);

void append_chunk_size(std::string& out, size_t bytes);

std::string_view reason_phrase(int status);

// %41 -> A; anything malformed stays as it is.
std::string percent_decode(std::string_view text);

}  // namespace baton
