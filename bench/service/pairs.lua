-- A decision and, a little later, its reward: every second request. Ids are new in every run.
local run = os.getenv("RUN") or "0"
local loop = os.getenv("LOOP") or "load"
local more = os.getenv("MORE") or ""
local lag = tonumber(os.getenv("LAG") or "1024")
local sent, odd = 0, true
local headers = { ["Content-Type"] = "application/json", ["Authorization"] = os.getenv("TOKEN") }

function request()
  odd = not odd
  if odd and sent > lag + 1 then -- wrk makes the first request to look at it and does not send it
    local path = "/v1/loops/" .. loop .. "/decisions/" .. run .. "-" .. (sent - lag) .. "/reward"
    return wrk.format("POST", path, headers, '{"value":' .. (sent % 2) .. "}")
  end
  sent = sent + 1
  local body = '{"event_id":"' .. run .. "-" .. sent .. '"' .. more .. "}"
  return wrk.format("POST", "/v1/loops/" .. loop .. "/decisions", headers, body)
end

function done(summary, latency, requests)
  local e = summary.errors
  print(string.format(
    '{"requests":%d,"seconds":%f,"errors":%d,"p50":%f,"p99":%f,"max":%f}',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
