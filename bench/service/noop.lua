-- The same body to a route that does nothing.
local headers = { ["Content-Type"] = "application/json" }
local sent = 0

function request()
  sent = sent + 1
  return wrk.format("POST", "/decisions", headers, '{"event_id":"n-' .. sent .. '"}')
end

function done(summary, latency, requests)
  local e = summary.errors
  print(string.format(
    '{"requests":%d,"seconds":%f,"errors":%d,"p50":%f,"p99":%f,"max":%f}',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
