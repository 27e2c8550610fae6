-- Choose partition and time limit by predicted throughput; shared by job_submit.lua and
-- cli_filter.lua. Whatever goes wrong, the job is left as it was submitted.
--
-- A job says what it is in its comment:
--   sbatch --comment='perfmodel {"job": {"model": "timm/resnet50", "mode": "training",
--                                         "batch_size": 64}, "total_samples": 1e8}' ...
-- The JSON is handed to the service as it is; no parser of JSON is needed here.

local perfmodel = {}

-- What an administrator sets. Partitions in the order of preference among equals.
perfmodel.url = os.getenv("PERFMODEL_URL") or "http://127.0.0.1:8000"
perfmodel.timeout_s = tonumber(os.getenv("PERFMODEL_TIMEOUT_S") or "") or 0.5
perfmodel.key_file = nil -- a file that holds the line: header = "Authorization: Bearer <key>"
perfmodel.partitions = {
  { name = "v100", accelerator = "V100-SXM2-16GB" },
  { name = "a100", accelerator = "A100-SXM4-80GB" },
}
-- Longest limit that is set, in minutes.
perfmodel.longest_min = 7 * 24 * 60

local function quoted(text)
  -- Only what stands in this file and in slurm.conf is quoted, never what a user wrote.
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- Write the question to a file: nothing of it comes near a shell.
local function ask(body)
  local path = os.tmpname()
  local file = io.open(path, "w")
  if file == nil then return nil end
  file:write(body)
  file:close()
  local key = perfmodel.key_file and (" --config " .. quoted(perfmodel.key_file)) or ""
  local pipe = io.popen(
    "curl --silent --fail --noproxy '*' --max-filesize 4096"
      .. string.format(" --max-time %.3f", perfmodel.timeout_s) .. key
      .. " --header 'Content-Type: application/json' --data-binary @" .. quoted(path)
      .. " " .. quoted(perfmodel.url .. "/v1/adapters/slurm") .. " 2>/dev/null"
  )
  local answer = pipe and pipe:read(4096) or nil
  if pipe then pipe:close() end
  os.remove(path)
  return answer
end

-- The members of the JSON object in a comment, without its braces; nil for any other comment.
local function members(comment)
  if type(comment) ~= "string" or #comment > 65536 then return nil end
  return comment:match("^%s*perfmodel%s+{%s*(.-)%s*}%s*$")
end

local function candidates(wanted)
  local found = {}
  for _, partition in ipairs(perfmodel.partitions) do
    if wanted == nil or wanted == "" or ("," .. wanted .. ","):find("," .. partition.name .. ",", 1, true) then
      found[#found + 1] = string.format('"%s": "%s"', partition.name, partition.accelerator)
    end
  end
  return found
end

-- Accelerators in "gres:gpu:a100:4", "gres/gpu=4", "gpu:4" or "gpu"; nil if none is said.
local function counted(text)
  if type(text) ~= "string" or not text:find("gpu", 1, true) then return nil end
  return tonumber(text:match("gpu[^,]*[:=](%d+)")) or 1
end

-- Accelerators of a node, said by node or for the whole job; 1 if neither is.
function perfmodel.gpus(per_node, per_job, nodes)
  local of_job = counted(per_job)
  return counted(per_node) or (of_job and math.ceil(of_job / nodes)) or 1
end

-- Ask for a job; returns the partition and the limit in minutes, each of them nil where the
-- service did not say it.
function perfmodel.choose(comment, partition, nodes, gpus)
  local said, open = members(comment), candidates(partition)
  if said == nil or said == "" or #open == 0 then return nil, nil end
  local body = string.format(
    '{%s, "nodes": %d, "gpus_per_node": %d, "candidates": {%s}}', said, nodes, gpus, table.concat(open, ", ")
  )
  local answer = ask(body)
  if answer == nil then return nil, nil end
  local best, limit = answer:match("^partition=([%w_%-%.]+)\n"), nil
  if best == nil or not table.concat(open, ", "):find('"' .. best .. '": ', 1, true) then return nil, nil end
  local minutes = tonumber(answer:match("\ntime_limit_min=(%d+)\n") or "")
  if minutes and minutes >= 1 then limit = math.min(minutes, perfmodel.longest_min) end
  return best, limit
end

return perfmodel
